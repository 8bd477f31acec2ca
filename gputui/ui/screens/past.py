"""What the record of this machine has of an hour; [ and ] go from hour to hour."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputui.errors import GputuiError
from gputui.model.past import Past
from gputui.ui.attach.attached import Attached
from gputui.ui.bindings import PAST_BINDING
from gputui.ui.drawing.line import Line, fit, paragraph
from gputui.ui.drawing.monitor.past import draw_past_page, hour_of
from gputui.ui.screens.base import MonitorScreen, SubScreen
from gputui.ui.widgets.page import Page

HOUR_S = 3600.0
AGAIN_S = 10.0
"""Seconds until the present hour is read again: `gputui record` writes as often."""
NOT_OFFERED = "The past is that of this machine, which gputui record keeps; there is none here."


def show_past(screen: MonitorScreen) -> None:
    """Open the screen at the present hour."""
    read_past = screen.monitor.attached.read_past
    if read_past is None:
        screen.monitor.say(NOT_OFFERED, is_error=False)
    else:
        screen.app.push_screen(PastScreen(read_past))


class PastScreen(SubScreen):
    """An hour of all GPUs, read in a thread, since the file may be far away."""

    KEY_GROUPS: ClassVar[dict[str, str]] = {"past": "What was"}

    BINDINGS: ClassVar[list[BindingType]] = [
        PAST_BINDING,
        Binding(
            "right_square_bracket", "past(1)", "+1 h", key_display="]", id="past.forward", tooltip="an hour forward"
        ),
    ]

    def __init__(self, read: Callable[[float, float], Past]) -> None:
        super().__init__()
        self._read = read
        self._begin = 0.0
        self._past: Past | None = None
        self._problem = ""
        self._asked_at = 0.0

    def compose_body(self) -> ComposeResult:
        yield Page(self._draw_page, id="page")

    def on_mount(self) -> None:
        super().on_mount()
        self._begin = begin_of_hour(self._now)
        self._request()

    def draw(self) -> None:
        """Draw the hour; the present hour is read again after `AGAIN_S`."""
        if self._now > self._asked_at + AGAIN_S and self._begin == begin_of_hour(self._now):
            self._ask()
        self.query_one(Page).redraw()

    @property
    def _now(self) -> float:
        return self.monitor.snapshot.time

    def action_past(self, hours: int) -> None:
        """Go by so many hours, and not into the future."""
        self._begin = min(begin_of_hour(self._begin + hours * HOUR_S), begin_of_hour(self._now))
        self._request()

    def _request(self) -> None:
        self._ask()
        self.query_one(Page).redraw()

    def _ask(self) -> None:
        self._asked_at = self._now
        arguments = (self._begin, self.monitor.attached)
        Thread(target=self._find, args=arguments, name="gputui-past", daemon=True).start()

    def _find(self, begin: float, attached: Attached) -> None:
        """Read an hour, in a thread of its own, and hand it over."""
        found, problem = None, ""
        try:
            found = self._read(begin, begin + HOUR_S)
        except GputuiError as error:
            problem = str(error)
        attached.hand_over(partial(self._take, begin, found, problem))

    def _take(self, begin: float, found: Past | None, problem: str) -> None:
        """Show what was read, unless another hour was asked for meanwhile, or the screen was left."""
        if begin == self._begin and self.is_attached:
            self._past, self._problem = found, problem
            self.update_from_monitor()

    def _draw_page(self, width: int, height: int) -> list[Line]:
        if self._past and self._past.begin == self._begin:
            return draw_past_page(self._past, self._now, (width, height), self.monitor.appearance)
        title: Line = ((fit(hour_of(self._begin, self._begin + HOUR_S), width), "title"),)
        return [title, *paragraph(self._problem or "Reading the record ...", width, "fair" if self._problem else "dim")]


def begin_of_hour(now: float) -> float:
    """The last full hour of the local clock, in epoch seconds; some time zones are half an hour off UTC's."""
    local = time.localtime(now)
    return float(int(now) - local.tm_min * 60 - local.tm_sec)

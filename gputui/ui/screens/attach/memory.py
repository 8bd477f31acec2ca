"""The Memory screen: where the device's memory is, now and over time."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputui.model.history import SPANS_S
from gputui.ui.drawing.attach.memory import draw_memory
from gputui.ui.drawing.attach.timeline import Axis, draw_timeline, draw_title
from gputui.ui.drawing.line import Line
from gputui.ui.screens.attach.base import AttachScreen
from gputui.ui.widgets.page import Page

AROUND_TIMELINE = 2
"""Lines of the timeline's title and of its events."""

OVER_TIME = frozenset({"go_back", "now", "zoom"})
"""Actions on the timeline."""

ZOOMS_S = (1.0, *SPANS_S, 600.0)


class MemoryScreen(AttachScreen):
    """Bar, parts, counters, timeline; left and right move a cursor in time, and all numbers with it."""

    NAME = "memory"
    SHOWS_TOP = True
    LAST_KEYS = AttachScreen.LAST_KEYS | {"memory.now", "graph.zoom"}

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "go_back(-1)", "Back", id="memory.back", tooltip="the previous moment"),
        Binding("right,l", "go_back(1)", "Forward", id="memory.forward", tooltip="the next moment"),
        Binding("n", "now", "Now", id="memory.now", tooltip="back to the present"),
        Binding("z", "zoom", "Zoom", id="graph.zoom", tooltip="seconds per cell of the graphs"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._zoom = 0

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A file has no other moments to go to."""
        return not (action in OVER_TIME and self.monitor.attached.is_still) and super().check_action(action, parameters)

    def compose_body(self) -> ComposeResult:
        yield Page(self._draw_page, id="page")

    def draw(self) -> None:
        self.query_one(Page).redraw()

    def action_go_back(self, steps: int) -> None:
        """Move the cursor by this many moments; after the newest comes the present."""
        target = self.target
        if target is None or target.timeline.latest is None:
            return
        newest = target.timeline.latest.time
        moved = target.timeline.step(newest if target.cursor is None else target.cursor, steps)
        target.cursor = None if moved >= newest and steps > 0 else moved
        self.update_from_monitor()

    def action_now(self) -> None:
        if self.target:
            self.target.cursor = None
        self.update_from_monitor()

    def action_zoom(self) -> None:
        """The next resolution of the time axis."""
        self._zoom = (self._zoom + 1) % len(ZOOMS_S)
        self.draw()

    def _draw_page(self, width: int, height: int) -> list[Line]:
        moment, device = self.moment, self.device
        if moment is None or device is None:
            return self.nothing_yet(width)
        appearance = self.monitor.appearance
        lines = draw_memory(moment, device, width, appearance, self.verdict)
        problems = self.problems(width)
        if self.monitor.attached.is_still:
            return [*lines, (), *problems]
        lines += self._timeline(width, max(3, height - len(lines) - len(problems) - AROUND_TIMELINE))
        return lines + problems

    def _timeline(self, width: int, height: int) -> list[Line]:
        target, device = self.target, self.device
        if target is None or device is None or target.timeline.latest is None:
            return []
        span_s = ZOOMS_S[self._zoom]
        axis = Axis(target.timeline.counters(device.index), width, span_s, target.timeline.latest.time)
        appearance = self.monitor.appearance
        title = draw_title(axis, target.cursor, width, appearance)
        return [title, *draw_timeline(axis, height, target.cursor, target.marks, appearance)]

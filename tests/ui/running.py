"""A running application, with the actions and queries that tests of all screens share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual import app, pilot, screen
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot
from textual.screen import Screen

from gputui.ui.app import GputuiApp
from tests.hanging import HANGS_S, POLL_S, Limit


async def until_idle(_min_sleep_s: float = 0.0) -> None:
    """Wait until the event loop has nothing left to run, without a time limit."""
    loop = asyncio.get_running_loop()
    empty_turns = 0
    while empty_turns < 2:  # the second turn has processed timers and calls from other threads
        await asyncio.sleep(0)
        empty_turns = 0 if loop._ready else empty_turns + 1


# Textual's own function sleeps 40 ms per key and 20 ms per pause, and returns too early when other programs keep this
# one from the processor.
app.wait_for_idle = pilot.wait_for_idle = until_idle
GputuiApp.NOTIFICATION_TIMEOUT = HANGS_S  # a notice stays until it was read, on a busy machine, too
screen.UPDATE_PERIOD = 0.001  # seconds from a change to its repaint: 16 ms in a terminal, for each key here

PARSED: dict[tuple[object, ...], list[RuleSet]] = {}
"""The rules of every stylesheet that an application of this process has parsed, which are the same in the next one."""
parse_rules = Stylesheet._parse_rules


def parse_rules_once(sheet: Stylesheet, *arguments: object, **keywords: object) -> list[RuleSet]:
    """Parse a stylesheet, unless another application has done so with the same variables."""
    key = (arguments, *sorted(keywords.items()), *sorted(sheet._variables.items()))
    if key not in PARSED:
        PARSED[key] = parse_rules(sheet, *arguments, **keywords)
    return PARSED[key]


Stylesheet._parse_rules = parse_rules_once


class Running:
    """The application with its pilot."""

    def __init__(self, app: GputuiApp, pilot: Pilot[int]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        """Press keys and wait until everything is drawn."""
        await self.pilot.press(*keys)
        await self.settle()

    async def settle(self) -> None:
        """Wait until nothing is left to do, including layouts and repaints that Textual delays with a timer."""
        await self.pilot.pause()
        await self.pilot.pause()
        while self._is_drawing:
            await asyncio.sleep(POLL_S)
            await self.pilot.pause()

    @property
    def _is_drawing(self) -> bool:
        top = self.app.screen
        is_waiting = top._layout_required or top._dirty_widgets or top._callbacks
        return bool(is_waiting) or self.app._resize_timer is not None

    @property
    def _visible_screens(self) -> list[Screen[object]]:
        top = self.app.screen
        return [top, *(self.app._background_screens if top.is_modal else ())]

    async def resize(self, width: int, height: int) -> None:
        """Resize the terminal and wait until everything is drawn."""
        await self.pilot.resize_terminal(width, height)
        await self.until(lambda: all(each._compositor.size == (width, height) for each in self._visible_screens))
        await self.settle()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition holds; fails with the screen if it never does."""
        limit = Limit()
        while not condition():
            limit.check(lambda: f"a condition does not hold; the screen:\n{self.text}")
            await self.pilot.pause()
            await asyncio.sleep(POLL_S)

    async def click(self, words: str, *, times: int = 1) -> None:
        """Click on the first occurrence of `words` on the screen."""
        place = next((line.find(words), y) for y, line in enumerate(self.lines) if words in line)
        await self.pilot.click(offset=place, times=times)
        await self.settle()

    @property
    def lines(self) -> list[str]:
        """The lines of the screen, without trailing spaces."""
        strips = self.app.screen._compositor.render_strips()
        return [strip.text.rstrip() for strip in strips]

    @property
    def text(self) -> str:
        """The text of the screen."""
        return "\n".join(self.lines) + "\n"

    @property
    def notices(self) -> list[str]:
        """The messages of the notifications on screen."""
        return [notice.message for notice in self.app._notifications]

"""A running application: what tests do to it and ask of it, whatever it shows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from textual import app, pilot
from textual.pilot import Pilot

from gputui.ui.app import GputuiApp

PATIENCE_S = 120.0


async def until_idle(_min_sleep_s: float = 0.0) -> None:
    """Wait until the event loop has nothing left to run, however long that takes on a busy machine."""
    loop = asyncio.get_running_loop()
    empty_turns = 0
    while empty_turns < 2:  # the second turn has looked at timers and at what other threads sent
        await asyncio.sleep(0)
        empty_turns = 0 if loop._ready else empty_turns + 1


# Textual's own sleeps 40 ms for each key and 20 ms for each pause, and ends early where other programs keep this one
# from the processor.
app.wait_for_idle = pilot.wait_for_idle = until_idle


class Running:
    """The application with its pilot."""

    def __init__(self, app: GputuiApp, pilot: Pilot[int]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        """Press keys and wait until all is drawn."""
        await self.pilot.press(*keys)
        await self.settle()

    async def settle(self) -> None:
        """Wait until nothing is left to do."""
        await self.pilot.pause()
        await self.pilot.pause()

    async def resize(self, width: int, height: int) -> None:
        """Make the terminal another size and wait until all is drawn."""
        await self.pilot.resize_terminal(width, height)
        await self.until(lambda: self.app.screen._compositor.size == (width, height))
        await self.settle()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain; the screen:\n{self.text}"
            await self.pilot.pause()
            await asyncio.sleep(0.005)

    async def click(self, words: str, *, times: int = 1) -> None:
        """Click on the first place on the screen where `words` stand."""
        place = next((line.find(words), y) for y, line in enumerate(self.lines) if words in line)
        await self.pilot.click(offset=place, times=times)
        await self.settle()

    @property
    def lines(self) -> list[str]:
        """The screen as it is, line by line."""
        strips = self.app.screen._compositor.render_strips()
        return [strip.text.rstrip() for strip in strips]

    @property
    def text(self) -> str:
        """The screen as it is."""
        return "\n".join(self.lines) + "\n"

    @property
    def notices(self) -> list[str]:
        """The notices that are shown."""
        return [notice.message for notice in self.app._notifications]

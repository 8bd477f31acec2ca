"""The application replaying a recording."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from textual.pilot import Pilot

from gputui.model.attached.timeline import Playback, Timeline
from gputui.settings import Settings
from gputui.sources.files.recording.player import Player, ReplayFeed
from gputui.sources.files.recording.reader import Recording
from gputui.ui.app import GputuiApp
from tests.hanging import HANGS_S
from tests.ui.attach.sitting import StillMachine
from tests.ui.running import Running


class Replay(Running):
    """The running application and its player."""

    def __init__(self, app: GputuiApp, player: Player, pilot: Pilot[int]) -> None:
        super().__init__(app, pilot)
        self.player = player

    async def press(self, *keys: str) -> None:
        """Press keys, and wait after each until the player has run its command and everything is drawn."""
        for key in keys:
            await self.pilot.press(key)
            await self._until_commands_are_done()
            await self.until(lambda: not self.player._is_rough)
            await self._until_commands_are_done()  # after a jump the player still delivers the details it skipped
            await self.settle()
        await self.until(lambda: all(target.tensors.is_current for target in self.app.attached.targets.all))
        await self.settle()

    async def _until_commands_are_done(self) -> None:
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        self.player._commands.put(lambda: loop.call_soon_threadsafe(done.set) and None)
        await asyncio.wait_for(done.wait(), HANGS_S)

    @property
    def playback(self) -> Playback:
        """The player's position, speed and state."""
        return self.player.playback

    @property
    def timeline(self) -> Timeline:
        """The timeline of the process on screen."""
        assert self.app.attached.targets.current is not None
        return self.app.attached.targets.current.timeline

    @property
    def screen(self) -> str:
        """The name of the attach screen on top."""
        return getattr(self.app.screen, "NAME", "")


@asynccontextmanager
async def replaying(path: Path, size: tuple[int, int] = (120, 40), keys: tuple = ()) -> AsyncIterator[Replay]:
    """The recording, paused at its beginning, on the first attach screen."""
    recording = Recording(path)
    player = Player(recording, is_playing=False)
    settings = Settings(interval_s=3600.0, keys=keys)
    app = GputuiApp(settings, player.machine(), StillMachine, open_feed=lambda _: partial(ReplayFeed, player))
    app.attached.is_replay = True
    app.attached.first_pids = tuple(recording.greetings)
    app.attached.first_notices = recording.notices
    async with app.run_test(size=size) as pilot:
        replay = Replay(app, player, pilot)
        await replay.until(lambda: replay.screen and app.attached.targets.current)
        await replay.press()
        yield replay

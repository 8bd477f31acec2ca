"""The application attached to a process whose moments the test supplies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from textual.pilot import Pilot

from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.target import ActionName
from gputui.model.machine.process import Identity
from gputui.model.machine.snapshot import NOTHING_YET, Attention, Snapshot
from gputui.settings import Settings
from gputui.ui.app import GputuiApp
from tests.ui.running import Running

S = TypeVar("S", bound="Sitting")


class StillMachine:
    """A machine that always returns the same snapshot; the default snapshot holds no readings."""

    def __init__(self, snapshot: Snapshot = NOTHING_YET) -> None:
        self._snapshot = snapshot._replace(time=snapshot.time or 1.0, number=1)

    def look(self, attention: Attention, interval_s: float) -> Snapshot:
        """The snapshot, the same every time."""
        return self._snapshot

    def send_signal(self, identity: Identity, number: int) -> None:
        """Do nothing: there is no process."""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class DealtFeed:
    """A feed whose moments come from the test; it records every request."""

    def __init__(self, pid: int, listener: Callable[[TargetMoment], None]) -> None:
        self.pid = pid
        self.deal = listener
        self.marks: list[str] = []
        self.looks: list[str] = []
        self.actions: list[ActionName] = []

    def start(self) -> None:
        """Do nothing: moments come only from the test."""

    def stop(self) -> None:
        """Do nothing."""

    def look(self, how: str = "walk") -> None:
        """Record the request."""
        self.looks.append(how)

    def mark(self, label: str) -> None:
        """Record the request."""
        self.marks.append(label)

    def run_action(self, name: ActionName) -> None:
        """Record the request."""
        self.actions.append(name)


class Sitting(Running):
    """The running application and its feeds by PID; `feed` belongs to the first process."""

    def __init__(self, app: GputuiApp, feeds: dict[int, DealtFeed], pilot: Pilot[int]) -> None:
        super().__init__(app, pilot)
        self.feeds = feeds
        self.feed = next(iter(feeds.values()))

    async def press(self, *keys: str) -> None:
        """Press keys one at a time, waiting after each until everything is drawn."""
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    async def settle(self) -> None:
        """Wait until nothing is left to do, including in the threads that build tensor trees and recorded steps."""
        await super().settle()
        while self._is_working_out_a_step:
            await self.until(lambda: not self._is_working_out_a_step)
            await super().settle()
        while not all(target.tensors.is_current for target in self.app.attached.targets.all):
            await self.until(lambda: all(target.tensors.is_current for target in self.app.attached.targets.all))
            await super().settle()

    @property
    def _is_working_out_a_step(self) -> bool:
        targets = self.app.attached.targets.all
        return any(target.step.is_building or target.whatif.is_building for target in targets)

    async def deal(self, *moments: TargetMoment) -> None:
        """Deliver these moments, waiting until each is drawn."""
        for moment in moments:
            self.feeds[moment.pid].deal(moment)
            await self.until(lambda moment=moment: self.is_taken(moment))
            await self.settle()

    def is_taken(self, moment: TargetMoment) -> bool:
        """Whether this moment is the newest of its process in the application."""
        return any(target.timeline.latest is moment for target in self.app.attached.targets.all)

    @property
    def screen(self) -> str:
        """The name of the attach screen on top."""
        return getattr(self.app.screen, "NAME", "")


@asynccontextmanager
async def sitting(
    *moments: TargetMoment,
    size: tuple[int, int] = (80, 24),
    snapshot: Snapshot = NOTHING_YET,
    is_readonly: bool = False,
    feed: type[DealtFeed] = DealtFeed,
    kind: type[S] = Sitting,
    **settings,
) -> AsyncIterator[S]:
    """The application attached to the processes of these moments, on the first screen of the first process.

    All moments but the newest of each process are delivered together first. `settings` are those of the settings file.
    """
    feeds: dict[int, DealtFeed] = {}

    def open_feed(pid: int, listener: Callable[[TargetMoment], None]) -> DealtFeed:
        feeds[pid] = feed(pid, listener)
        return feeds[pid]

    app = GputuiApp(
        Settings(**{"interval_s": 3600.0, "readonly": is_readonly, **settings}),
        StillMachine(snapshot),
        StillMachine,
        open_feed=lambda _: open_feed,
    )
    async with app.run_test(size=size) as pilot:
        while app.snapshot.number != 1:
            await pilot.pause()
        app.attached.attach(*dict.fromkeys(moment.pid for moment in moments))
        running = kind(app, feeds, pilot)
        await running.settle()
        newest = {moment.pid: moment for moment in moments}
        for moment in moments:
            if moment is not newest[moment.pid]:
                feeds[moment.pid].deal(moment)
        await running.deal(*newest.values())
        yield running

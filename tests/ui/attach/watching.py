"""The application beside a job of some ranks that it has watched for minutes or days, and what one frame costs."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import FrameType

import gputui
from gputui.explain.machine.record import record
from gputui.model.attached.allocator import AllocatorStatistics
from gputui.model.attached.moment import TargetMoment
from gputui.ui.messages import SnapshotTaken
from gputui.ui.screens.device import DeviceScreen
from gputui.ui.screens.overview import Overview
from gputui.ui.screens.process import ProcessScreen
from gputui.units import MIB
from tests.scale import sized
from tests.ui import scenes
from tests.ui.attach import scene
from tests.ui.attach.sitting import Sitting, sitting

TEN_MINUTES_S = 600
WEEK_S = 7 * 86_400

DENSE_S = sized(1500, 3600)
"""The newest part of a history has every second; what lies before it, one reading in `sparse_s`."""
SPARSE_S = sized(600, 300)
LOOK_EVERY_S = 3
RETRY_EVERY_S = 600
FRAMES = sized(3, 6)
RANKS = 3

ATTACH_SCREENS = {"memory": "1", "why": "2", "tensors": "4", "ranks": "6"}
SCREENS = (*ATTACH_SCREENS, "overview", "device", "process")

_READ: set[int] = set()


class NotedStatistics(AllocatorStatistics):
    """Counters that note when any of them is read."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> object:
        _READ.add(id(self))
        return super().__getattribute__(name)


@dataclass(frozen=True)
class Work:
    """What some frames did: how many samples of the counters it read, and how many lines of gputui's code it ran."""

    samples: int
    lines: int


_CODE = str(Path(gputui.__file__).parent)


class _Lines:
    """Counts the lines of gputui's code that the application's thread runs."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> _Lines:
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, argument: object) -> object:
        return self._in_gputui if frame.f_code.co_filename.startswith(_CODE) else None

    def _in_gputui(self, frame: FrameType, event: str, argument: object) -> object:
        self.count += event == "line"
        return self._in_gputui


def moment_at(rank: int, second: int) -> TargetMoment:
    """A rank's moment: steps of eight seconds, a look every few seconds, a retry every ten minutes."""
    last = scene.story(rank)[-1]
    (device,) = last.devices
    time, look_time = scene.NOW + second, scene.NOW + second // LOOK_EVERY_S * LOOK_EVERY_S
    layout = replace(device.layout, statistics=_counters(device.statistics, look_time), names_time=look_time)
    device = replace(device, statistics=_counters(device.statistics, time), layout=layout)
    return replace(last, time=time, devices=(device,), look_time=look_time)


_NAMES = tuple(field.name for field in fields(AllocatorStatistics))


def _counters(full: AllocatorStatistics, time: float) -> NotedStatistics:
    missing = (7 - int(time) % 8) * 40 * MIB + int(time) % 8 * 1000
    values = {name: getattr(full, name) for name in _NAMES}
    for name in ("allocated_bytes", "active_bytes", "requested_bytes"):
        values[name] -= missing
    retries = int(time - scene.NOW + WEEK_S) // RETRY_EVERY_S
    return NotedStatistics(**{**values, "generation": int(time), "num_alloc_retries": retries})


def seconds_of(watched_s: int, sparse_s: int) -> Iterator[int]:
    """The seconds of the readings, relative to now."""
    yield from range(-watched_s, -DENSE_S, sparse_s)
    yield from range(max(-watched_s, -DENSE_S), 0)


class Watching(Sitting):
    """The application after some time; `second` is the newest reading's."""

    second = 0

    def fill(self, watched_s: int, sparse_s: int) -> None:
        """Have everything that keeps a history take the readings of this time, without drawing any."""
        for rank, target in enumerate(self.app.attached.targets.all):
            for second in seconds_of(watched_s, sparse_s):
                if rank == 0 or second % sparse_s == 0:
                    target.timeline.add(moment_at(rank, second))
        for second in seconds_of(watched_s, sparse_s):
            if second % 10 == 0:
                record(self.app.history, self._snapshot(second))

    async def go(self, name: str) -> None:
        """Go to a screen."""
        while not isinstance(self.app.screen, Overview):
            await self.press("escape")
        if name in ATTACH_SCREENS:
            self.app.show_attach_screen(name)
        elif name == "device":
            self.app.push_screen(DeviceScreen(self.app.snapshot.devices.devices[0].key))
        elif name == "process":
            self.app.push_screen(ProcessScreen(self.app.snapshot.processes.processes[0]))
        await self.settle()

    async def frame(self) -> None:
        """One more reading of every rank and of the machine, and what the screen on top draws of them."""
        snapshot, moments = self.next()
        await self.draw(snapshot, moments)

    def next(self) -> tuple[SnapshotTaken, list[TargetMoment]]:
        """The next readings."""
        self.second += 1
        return SnapshotTaken(self._snapshot(self.second)), [moment_at(rank, self.second) for rank in range(RANKS)]

    async def draw(self, snapshot: SnapshotTaken, moments: list[TargetMoment]) -> None:
        """Have the application take these readings, and wait until it has drawn them."""
        for moment in moments:
            self.feeds[moment.pid].deal(moment)
        self.app.post_message(snapshot)
        await self.settle()

    async def work(self) -> Work:
        """What `FRAMES` frames do, in which a look and an evaluation of the findings come up as often as in others."""
        samples = lines = 0
        for _ in range(FRAMES):
            snapshot, moments = self.next()
            _READ.clear()
            with _Lines() as counted:
                await self.draw(snapshot, moments)
            samples, lines = samples + len(_READ), lines + counted.count
        return Work(samples, lines)

    def _snapshot(self, second: int):
        return scenes.node(2 + max(0, second), time=scene.NOW + second)


@asynccontextmanager
async def watching(
    watched_s: int, size: tuple[int, int] = (120, 40), sparse_s: int = SPARSE_S
) -> AsyncIterator[Watching]:
    """The application after it has watched a job for so long."""
    firsts = [moment_at(rank, -watched_s - 1) for rank in range(RANKS)]
    async with sitting(*firsts, size=size, snapshot=scenes.node(1), kind=Watching) as at:
        at.fill(watched_s, sparse_s)
        await at.frame()
        yield at

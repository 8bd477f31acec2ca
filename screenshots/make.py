"""Writes the screenshots of this folder from the running program: `python screenshots/make.py`.

The demonstration runs on a simulated clock, so every run writes the same files.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot

from gputui.model.fleet.attention import FleetAttention
from gputui.model.machine.device import DeviceLook, Lost
from gputui.model.machine.process import Identity, ProcessLook
from gputui.model.machine.snapshot import Attention, Snapshot
from gputui.model.reading import Absent
from gputui.settings import Settings
from gputui.sources.demo.fleet import DemoAnswers
from gputui.sources.demo_machine import DemoMachine
from gputui.sources.prometheus.reader import Reader
from gputui.ui.app import GputuiApp
from gputui.ui.messages import SnapshotTaken
from gputui.ui.screens.fleet.screen import FleetScreen

FOLDER = Path(__file__).parent
BEGIN = 1_763_640_000.0
"""20 November 2025, 12:00:00 UTC."""
PAST_S = 420
"""How much history the graphs show."""
NEVER_S = 3600.0
PROBLEM = "The NVIDIA driver is not loaded: /proc/driver/nvidia is not there. Load it with: sudo modprobe nvidia"
LOST = Lost("GPU is lost (XID 79)", "it has fallen off the bus. Restart the machine.")

Change = Callable[[Snapshot], Snapshot]


@dataclass(frozen=True)
class Shot:
    """One picture: file name, terminal size, the keys that lead to the screen, theme, and a fault of the machine."""

    name: str
    size: tuple[int, int] = (120, 40)
    keys: tuple[str, ...] = ()
    theme: str = "terminal"
    change: Change = lambda snapshot: snapshot
    is_fleet: bool = False


def without_driver(snapshot: Snapshot) -> Snapshot:
    """Replace the devices with the problem of a missing driver."""
    return snapshot._replace(devices=DeviceLook(problem=PROBLEM), processes=ProcessLook())


def with_lost_device(snapshot: Snapshot) -> Snapshot:
    """Replace the sixth GPU with one that no longer answers."""
    gone = Absent("GPU is lost")
    devices = tuple(
        device._replace(lost=LOST, memory=gone, gpu_utilization_percent=gone, power_w=gone)
        if device.index == 5
        else device
        for device in snapshot.devices.devices
    )
    return snapshot._replace(devices=snapshot.devices._replace(devices=devices))


SHOTS = (
    Shot("overview-80x24", (80, 24)),
    Shot("overview-120x40"),
    Shot("overview-200x50", (200, 50)),
    Shot("overview-tokyo-night", theme="tokyo-night"),
    Shot("overview-textual-light", theme="textual-light"),
    Shot("tree", keys=("t",)),
    Shot("device", keys=("tab", "down", "down", "enter")),
    Shot("process", keys=("enter",)),
    Shot("help", keys=("question_mark",)),
    Shot("sort", keys=("o",)),
    Shot("confirm", keys=("space", "space", "T")),
    Shot("filter", keys=("slash", *"user==ana and mem>10GiB")),
    Shot("palette", keys=("ctrl+p", *"sig")),
    Shot("nvml-problem", (80, 24), change=without_driver),
    Shot("lost-device", change=with_lost_device),
    Shot("fleet", keys=(*["down"] * 3, "space"), is_fleet=True),
)


class Stage:
    """The demonstration on a clock that only moves when it is advanced."""

    def __init__(self, change: Change) -> None:
        self.now = BEGIN
        self._machine = DemoMachine(clock=lambda: self.now)
        self._change = change

    def look(self, attention: Attention, interval_s: float) -> Snapshot:  # noqa: ARG002 - the clock paces
        """Take the snapshot of the clock's time."""
        return self._change(self._machine.look(attention, 1.0)._replace(number=1 + round(self.now - BEGIN)))

    def send_signal(self, identity: Identity, number: int) -> None:
        """Refuse it, as every demonstration does."""
        self._machine.send_signal(identity, number)

    def close(self) -> None:
        """Hold nothing to close."""


class FleetStage:
    """The demonstration's fleet at one moment."""

    def __init__(self) -> None:
        self._reader = Reader(DemoAnswers(lambda: BEGIN), lambda: BEGIN)
        self._number = 0

    def look(self, attention: Attention, interval_s: float) -> Snapshot:
        """What is asked for is there at once."""
        for _ in self._reader.steps(attention.fleet or FleetAttention(), is_due=False):
            pass
        self._number += 1
        return Snapshot(BEGIN, self._number, interval_s, is_demo=True, fleet=self._reader.fleet)

    def send_signal(self, identity: Identity, number: int) -> None:
        """No screen of a fleet offers it."""

    def close(self) -> None:
        """Hold nothing to close."""


@asynccontextmanager
async def monitor(shot: Shot) -> AsyncIterator[tuple[GputuiApp, Pilot[int]]]:
    """Run the monitor at the shot's size, with `PAST_S` of history, or the fleet."""
    stage = FleetStage() if shot.is_fleet else Stage(shot.change)
    app = GputuiApp(Settings(interval_s=NEVER_S, theme=shot.theme), stage, lambda: stage)
    if shot.is_fleet:
        app.install_screen(FleetScreen(), "fleet")
        app.first_screen = "fleet"
    async with app.run_test(size=shot.size) as pilot:
        await until(pilot, lambda: app.snapshot.number >= 1)
        for second in range(2, PAST_S, 2):
            if isinstance(stage, Stage):
                stage.now = BEGIN + second
                app.on_snapshot_taken(SnapshotTaken(stage.look(Attention(), NEVER_S)))
        await settle(pilot)
        yield app, pilot


async def until(pilot: Pilot[int], condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    while not condition():
        await pilot.pause()
        await asyncio.sleep(0.01)


async def settle(pilot: Pilot[int]) -> None:
    """Wait until everything is drawn."""
    for _ in range(3):
        await pilot.pause()


async def take(shot: Shot) -> None:
    """Write one picture."""
    async with monitor(shot) as (app, pilot):
        await pilot.press(*shot.keys)
        if shot.name == "process":
            await until(pilot, lambda: app.snapshot.details is not None)
        if shot.is_fleet:
            await until(pilot, lambda: bool(app.snapshot.fleet and app.snapshot.fleet.devices))
        await settle(pilot)
        picture = app.export_screenshot(title="gputui")
    (FOLDER / f"{shot.name}.svg").write_text(picture, encoding="utf-8")


def main(names: list[str]) -> None:
    """Write the named pictures, or all of them."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    for shot in SHOTS:
        if not names or shot.name in names:
            asyncio.run(take(shot))
            print(f"{shot.name}.svg")


if __name__ == "__main__":
    main(sys.argv[1:])

"""The monitor with thousands of processes on the devices: counts of reads, frames and bytes, never time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gputui.explain.machine.record import PROCESSES_AT_MOST
from gputui.model.machine.process import Identity, ProcessState
from gputui.model.machine.snapshot import Attention, Snapshot
from gputui.settings import Settings
from gputui.sources import procfs
from gputui.sources.nvml import NvmlSource
from gputui.sources.processes import ProcessSource
from gputui.ui.app import GputuiApp
from gputui.ui.drawing import columns
from gputui.ui.widgets import table
from tests.conftest import FakeGpus
from tests.scale import SCALE, sized
from tests.sources.false_proc import FalseProc
from tests.ui.running import Running
from tests.ui.wire import Wire

FIRST = 900_000_000
"""PIDs that no kernel gives: a signal sent to one by mistake would reach nobody."""
CROWD = sized(1000, 5000)
GONE_EACH_LOOK = CROWD * 4 // 5
LOOKS = 2 * SCALE
SIZES = [(80, 24), (200, 50)]


class CrowdedMachine:
    """The fake NVML's processes with a folder in place of /proc; `pids` are those of the next look.

    Without files, the processes count as ended, and looks are quick to prepare.
    """

    def __init__(self, gpus: FakeGpus, proc: FalseProc, *, has_files: bool) -> None:
        self._gpus, self._proc, self._has_files = gpus, proc, has_files
        self.time_s = 1000.0
        self._nvml = NvmlSource(clock=lambda: self.time_s)
        self.source = ProcessSource(proc.root, in_private_namespace=False, clock=lambda: self.time_s)
        self._number = 0
        self.pids: list[int] = []
        self.replace(0)

    def replace(self, ended: int) -> None:
        """End the oldest processes, and start as many as are missing."""
        for pid in self.pids[:ended] if self._has_files else ():
            self._proc.remove(pid)
        newest = self.pids[-1] if self.pids else FIRST - 1
        started = range(newest + 1, newest + 1 + CROWD - len(self.pids[ended:]))
        for pid in started if self._has_files else ():
            self._proc.add(pid, is_bare=True)
        self.pids = [*self.pids[ended:], *started]
        self._gpus.crowd(self.pids)

    def look(self, attention: Attention, interval_s: float) -> Snapshot:
        """One look, two seconds after the last, when NVML's lists are read again."""
        self.time_s += 2.0
        self._number += 1
        devices = self._nvml.read()
        return Snapshot(
            time=1_763_640_000.0 + self.time_s,
            number=self._number,
            interval_s=1.0,
            devices=devices,
            processes=self.source.read(devices),
            details=self.source.details(attention.process) if attention.process else None,
        )

    def send_signal(self, identity: Identity, number: int) -> None:
        """Do nothing: the processes do not exist."""

    def close(self) -> None:
        """Shut the fake NVML down."""
        self._nvml.close()


class Crowd(Running):
    """The application on a crowded machine, with counts of what it does."""

    def __init__(self, app: GputuiApp, pilot, machine: CrowdedMachine, wire: Wire) -> None:
        super().__init__(app, pilot)
        self.machine, self.wire = machine, wire

    async def look(self) -> None:
        """Take a snapshot and wait until it is drawn."""
        number = self.app.snapshot.number
        self.app._sampler.refresh()
        await self.until(lambda: self.app.snapshot.number > number)
        await self.settle()

    @property
    def position(self) -> str:
        """The cursor's position as the table's head shows it."""
        positions = [line.split()[-1] for line in self.lines if line.endswith(f"/{CROWD}")]
        assert len(positions) == 1, self.text
        return positions[0]


@asynccontextmanager
async def crowded(machine: CrowdedMachine, size: tuple[int, int]) -> AsyncIterator[Crowd]:
    app = GputuiApp(Settings(interval_s=3600.0), machine, lambda: machine)
    wire = Wire(app)
    async with app.run_test(size=size) as pilot:
        crowd = Crowd(app, pilot, machine, wire)
        await crowd.until(lambda: app.snapshot.number)
        await crowd.settle()
        yield crowd
    app._sampler._thread.join()  # it may be in a call of the library, which the next test gives other devices


KEYS = [
    (["down"], 2),
    (["pagedown"], None),
    (["end"], CROWD),
    (["up"], CROWD - 1),
    (["home"], 1),
    (["o", "m"], 1),
    (["r"], 1),
    (["t"], 1),
    (["space"], 2),
    (["escape"], 2),
]


@pytest.mark.long
@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_keys_are_served_and_a_frame_draws_only_the_rows_on_screen(fake_gpus, tmp_path, size, monkeypatch):
    drawn = 0

    def counted(*arguments, **options):
        nonlocal drawn
        drawn += 1
        return columns.draw_row(*arguments, **options)

    monkeypatch.setattr(table, "draw_row", counted)
    fake_gpus.up(8)
    machine = CrowdedMachine(fake_gpus, FalseProc(tmp_path / "proc"), has_files=False)
    async with crowded(machine, size) as crowd:
        width, height = size
        for keys, place in KEYS:
            frames, sent_bytes, drawn = len(crowd.wire.sent), crowd.wire.bytes, 0
            await crowd.press(*keys)
            if place is not None:
                assert crowd.position == f"{place}/{CROWD}", keys
            new_frames = len(crowd.wire.sent) - frames
            assert crowd.wire.bytes - sent_bytes <= 2 * width * height * max(1, new_frames)
            assert drawn <= 4 * height * len(keys), keys
        for _ in range(3):
            sent_bytes, drawn = crowd.wire.bytes, 0
            await crowd.look()
            assert crowd.wire.bytes - sent_bytes < 500  # the clock, and what little has changed
            assert drawn <= 2 * height
        await crowd.press("slash", *str(machine.pids[-1]), "enter")
        assert sum("vanished" in line for line in crowd.lines) == 1
        await crowd.press("enter")
        assert f"Process {machine.pids[-1]}" in crowd.text


@pytest.mark.long
async def test_a_crowd_that_comes_and_goes_each_second_is_read_once_and_forgotten(
    fake_gpus, tmp_path, monkeypatch, record_property
):
    reads, read_file = 0, procfs.read_file

    def counted(path: str, *most_bytes: int) -> bytes:
        nonlocal reads
        reads += 1
        return read_file(path, *most_bytes)

    monkeypatch.setattr(procfs, "read_file", counted)
    record_property("count", f"{LOOKS * GONE_EACH_LOOK} processes")
    fake_gpus.up(8)
    machine = CrowdedMachine(fake_gpus, FalseProc(tmp_path / "proc"), has_files=True)
    async with crowded(machine, (80, 24)) as crowd:
        for _ in range(LOOKS):
            machine.replace(GONE_EACH_LOOK)
            reads, sent_bytes = 0, crowd.wire.bytes
            await crowd.look()
            assert reads <= CROWD + 6 * GONE_EACH_LOOK
            assert crowd.wire.bytes - sent_bytes <= 4 * 80 * 24
            shown = {process.pid for process in crowd.app.snapshot.processes.processes}
            assert shown == set(machine.pids)
            assert len(crowd.app.history._series) <= PROCESSES_AT_MOST + 20
            await crowd.press("down")
            assert crowd.position.endswith(f"/{CROWD}")


@pytest.mark.long
def test_once_lists_every_process_of_a_crowd(fake_gpus):
    fake_gpus.up(8)
    fake_gpus.crowd(range(FIRST, FIRST + CROWD))
    command = [sys.executable, "-m", "gputui", "--once"]
    result = subprocess.run([*command, "--json"], env=fake_gpus.environment, capture_output=True, text=True, check=True)
    document = json.loads(result.stdout)
    processes = [process for device in document["devices"] for process in device["processes"]]
    assert {process["pid"] for process in processes} == set(range(FIRST, FIRST + CROWD))
    assert {process["command"] for process in processes} == {None}
    assert f"process {FIRST}: {ProcessState.VANISHED.value}" in result.stdout
    table = subprocess.run(command, env=fake_gpus.environment, capture_output=True, text=True, check=True)
    assert sum(str(pid) in table.stdout for pid in range(FIRST, FIRST + CROWD, 100)) == CROWD // 100

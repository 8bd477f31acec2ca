"""A monitor left open for days keeps nothing about processes that have ended."""

from __future__ import annotations

import gc
import subprocess
from collections import Counter

import pytest

from gputui.explain.machine.record import record
from gputui.model.history import History
from gputui.model.machine.snapshot import Snapshot
from gputui.sources.nvml import NvmlSource
from gputui.sources.processes import ProcessSource
from tests.conftest import FakeGpus

TWO_LOOKS = 250
"""Objects of the newest looks may still be alive; a leak grows with each of 20 looks."""


class Churn:
    """Looks at a machine where all processes are new at each look: 100 that only NVML knows, and 2 real ones."""

    def __init__(self, gpus: FakeGpus) -> None:
        self.gpus = gpus
        self.time = 1000.0
        self.nvml = NvmlSource(clock=lambda: self.time)
        self.sampled = ProcessSource()
        self.history = History()
        self.looks = 0

    def look(self, times: int) -> None:
        for _ in range(times):
            self.looks += 1
            self.gpus.clear("processes")
            first = 4_000_000 + 100 * self.looks
            self.gpus.ghost(100, pid=first)
            children = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
            for child in children:
                self.gpus.process(child.pid, {0: 300})
            self.time += 60.0
            devices = self.nvml.read()
            processes = self.sampled.read(devices)
            seen = {process.pid for process in processes.processes}
            assert seen == {*range(first, first + 100), *(child.pid for child in children)}
            record(self.history, Snapshot(time=self.time, devices=devices, processes=processes))
            for child in children:
                child.kill()
                child.wait()


@pytest.fixture
def churn(fake_gpus: FakeGpus):
    churn = Churn(fake_gpus)
    yield churn
    churn.nvml.close()


def objects() -> Counter[str]:
    """The number of gputui objects by type, and the number of items in all containers."""
    gc.collect()
    live = gc.get_objects()
    counts = Counter(type(item).__qualname__ for item in live if str(type(item).__module__).startswith("gputui"))
    counts["items of dicts, sets and lists"] = sum(len(item) for item in live if type(item) in (dict, set, list))
    return counts


def test_memory_does_not_grow_as_processes_start_and_end(churn: Churn) -> None:
    churn.look(10)
    before = objects()
    churn.look(20)
    grown = {name: count - before[name] for name, count in objects().items()}
    grown = {name: count for name, count in grown.items() if count > TWO_LOOKS}
    assert grown == {}

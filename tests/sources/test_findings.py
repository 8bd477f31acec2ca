"""Findings from the fake library's devices and real processes: each in its time, and none on a healthy machine.

What a program that loads data shows is in tests/explain/machine, with real DataLoaders.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from gputui.explain.machine.rules import RULES
from gputui.model.machine.device import DeviceLook
from gputui.model.machine.snapshot import Snapshot
from gputui.sources.processes import ProcessSource
from gputui.sources.procfs import ProcFs
from tests.conftest import FakeGpus
from tests.explain.machine.scenes import Machine
from tests.hanging import HANGS_S
from tests.plugins.left_out import CONTAINERS, OUTSIDE_SHM
from tests.sources.children import IDLE, running
from tests.sources.conftest import Looks
from tests.sources.test_orphans import end_launcher, family
from tests.sources.waiting import look_until
from tests.ui import scenes

GPU_IS_LOST, UNKNOWN_ERROR = 15, 999
WAITS = {"util": 100, "power": 118_000, "gpm_sm": 180, "gpm_tensor": 0, "gpm_dram": 20}
NO_PIPES = {"gpm_fp64": 0, "gpm_fp32": 0, "gpm_fp16": 0}
LATER = 4_000_000_000.0
"""The simulated time: after that of the processes and of the driver's events."""
RESTS = {"util": 0, "power": 72_000}


class Watched:
    """Two busy GPUs with a rank on each, watched on a simulated clock."""

    def __init__(self, gpus: FakeGpus, looks: Looks, pids: list[int]) -> None:
        self.gpus, self.looks, self.pids = gpus, looks, pids
        self.heat_share = 0.0
        """Of the time, for which heat lowers the clocks of GPU 1."""
        self._machine = Machine()
        self._machine.now = LATER
        looks.source.watch_faults()
        looks.source.watch_profiles()
        self._processes = ProcessSource(in_private_namespace=False)
        self._processes.watch_owners(HANGS_S)

    def pass_time(self, seconds: float, step_s: float = 2.0) -> list[tuple[str, str]]:
        """The kinds and places of the findings after so long."""
        for _ in range(max(1, round(seconds / step_s))):
            self._count(step_s)
            devices = self.looks.look(step_s)
            looked = Snapshot(devices=devices, host=scenes.HOST, processes=self._processes.read(devices))
            self._machine.pass_time(step_s, looked, step_s)
        return [(finding.kind, finding.where) for finding in self._machine.watch.findings]

    def _count(self, seconds: float) -> None:
        """The driver's counters go on."""
        device = self.gpus.state.dev[1]
        until_us = device.slowed_until_us + int(1e6 * seconds)
        lowered_ns = device.slowed_thermal_ns + int(1e9 * seconds * self.heat_share)
        self.gpus.set(1, slowed_until_us=until_us, slowed_thermal_ns=lowered_ns)


@pytest.fixture
def watched(fake_gpus: FakeGpus, looks: Looks) -> Iterator[Watched]:
    fake_gpus.up(2, busy=True, gpm=True)
    with ExitStack() as stack:
        pids = []
        for number in range(2):
            variables = {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2"}
            pids.append(stack.enter_context(running(IDLE, **variables)).pid)
            fake_gpus.process(pids[-1], {number: 20_000})
        yield Watched(fake_gpus, looks, pids)


class Trouble(NamedTuple):
    """What befalls the machine, where that is found, and after how many seconds at the latest.

    `is_read`: what is read in a thread of its own has come.
    """

    begin: Callable[[Watched], None]
    where: str = "GPU 1"
    within_s: float = 0.0
    is_read: Callable[[DeviceLook], object] = lambda _: True


TROUBLES = {
    "driver": Trouble(lambda on: on.gpus.fault("nvmlDeviceGetCount*", error=UNKNOWN_ERROR), "driver"),
    "lost": Trouble(lambda on: on.gpus.fault("nvmlDeviceGet*", error=GPU_IS_LOST, device=1)),
    "gone": Trouble(lambda on: on.gpus.up(1, busy=True, gpm=True), within_s=10),
    "xid": Trouble(lambda on: on.gpus.xid(1, 79)),
    "recovery": Trouble(lambda on: on.gpus.set(1, recovery_action=1), within_s=60),
    "ecc": Trouble(lambda on: on.gpus.set(1, ecc_uncorrected=2), within_s=60),
    "rows": Trouble(lambda on: on.gpus.set(1, remapped_uncorrectable=1, remap_pending=1), within_s=60),
    "nvlink": Trouble(lambda on: on.gpus.set(1, nvlinks_active=17), within_s=30),
    "pcie": Trouble(lambda on: on.gpus.set(1, pcie_gen=3), within_s=180),
    "slowed": Trouble(lambda on: setattr(on, "heat_share", 0.4), within_s=320),
    "not_working": Trouble(
        lambda on: on.gpus.set(1, **WAITS, **NO_PIPES),
        within_s=70,
        is_read=lambda look: look.devices[1].tensor_percent == 0,
    ),
    "idle_held": Trouble(lambda on: on.gpus.set(1, **RESTS), within_s=3700),
    "unaccounted": Trouble(
        lambda on: on.gpus.answer("nvmlDeviceGetMemoryInfo_v2.used", 60 << 30, device=1), within_s=70
    ),
    "context": Trouble(lambda on: on.gpus.process(on.pids[1], {0: 500}), "GPU 0", within_s=70),
}


@pytest.mark.parametrize("kind", TROUBLES)
def test_a_trouble_is_found_in_time_and_nothing_else(watched: Watched, kind: str) -> None:
    trouble = TROUBLES[kind]
    assert watched.pass_time(10) == []
    trouble.begin(watched)
    look_until(watched.looks, trouble.is_read)
    found = watched.pass_time(trouble.within_s + 2, 20.0 if trouble.within_s > 600 else 2.0)
    assert found == [(kind, trouble.where)]


def test_an_orphan_is_found_in_time(watched: Watched) -> None:
    with family() as each:
        watched.gpus.process(each.worker_pid, {0: 300}, sm=0)
        assert watched.pass_time(70) == []
        end_launcher(each)
        is_of_init = ProcFs().stat(each.worker_pid).parent_pid == 1  # not where a subreaper has taken it over
        assert watched.pass_time(72) == [("orphan", "GPU 0")] * is_of_init


FULL_SHM = (
    "mount -t tmpfs -o size=8m tmpfs /dev/shm && head -c 8100000 /dev/zero >/dev/shm/batch"
    ' && exec "$0" -m gputui --once'
)


@pytest.mark.root
@pytest.mark.needs(CONTAINERS)
@pytest.mark.needs(OUTSIDE_SHM)
def test_a_container_whose_dev_shm_is_nearly_full_is_told_so_at_once(fake_gpus: FakeGpus) -> None:
    command = ["unshare", "--mount", "sh", "-c", FULL_SHM, sys.executable]
    looked = subprocess.run(command, env=fake_gpus.environment, capture_output=True, text=True, check=True)
    assert "/dev/shm is nearly full: 97%" in looked.stdout
    assert "docker --shm-size=16g" in " ".join(looked.stdout.split())


def test_nothing_is_wrong_with_a_healthy_machine_in_ten_minutes(watched: Watched) -> None:
    assert watched.pass_time(600) == []


def test_every_kind_has_a_trouble_here_or_programs_of_its_own() -> None:
    assert {rule.kind for rule in RULES} == TROUBLES.keys() | {"orphan", "host", "input"}

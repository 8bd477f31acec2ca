"""Samples of processes' utilisation count by their own time: old ones, ones from the future, and the only one ever."""

from __future__ import annotations

import pytest

from gputui.model.machine.snapshot import Snapshot
from gputui.model.reading import Absent, AbsentKind, Reading
from gputui.once.document import document
from gputui.sources.processes import ProcessSource
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.monitor.process_rows import View, process_rows_of
from tests.conftest import FakeGpus
from tests.fakegpu.lab import GHOST, NO_PID
from tests.sources.conftest import Looks

NOT_SAMPLED = Absent("no sample in the last interval", AbsentKind.NOT_SAMPLED)
SECOND_US = 1_000_000


@pytest.fixture(autouse=True)
def one_process(fake_gpus: FakeGpus) -> None:
    fake_gpus.up(1)
    fake_gpus.ghost(1, mib=100, pid=4_100_000)


def sm_percent(looks: Looks, after_s: float = 3.0) -> Reading[int]:
    (use,) = looks.look(after_s).uses
    return use.sm_percent


def test_a_sample_of_now_counts(fake_gpus: FakeGpus, looks: Looks) -> None:
    assert sm_percent(looks) == fake_gpus.state.proc[0].sm[0] > 0


@pytest.mark.parametrize("age_s", [90, 20, -90, -3600])
def test_a_sample_of_another_time_does_not_count(fake_gpus: FakeGpus, looks: Looks, age_s: int) -> None:
    fake_gpus.set(0, sample_age_us=age_s * SECOND_US)
    assert sm_percent(looks) == NOT_SAMPLED
    assert sm_percent(looks) == NOT_SAMPLED


def test_a_process_that_was_sampled_long_ago_and_never_since_is_idle(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.set(0, sampled_at_us=1)
    assert sm_percent(looks) == NOT_SAMPLED
    assert sm_percent(looks) == 0


def test_after_a_clock_was_set_back_samples_count_again(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.set(0, sample_age_us=-3600 * SECOND_US)
    assert sm_percent(looks) == NOT_SAMPLED
    fake_gpus.set(0, sample_age_us=0)
    assert sm_percent(looks) == fake_gpus.state.proc[0].sm[0]


def test_processes_under_pid_0_are_told_apart(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.clear("processes")
    for number, mib in enumerate((300, 200, 200)):
        fake_gpus.process(4_100_000 + number, {0: mib}, flags=GHOST | NO_PID)
    uses = looks.look().uses
    assert [(use.pid, use.used_bytes >> 20) for use in uses] == [(0, 300), (0, 200), (0, 200)]
    assert {use.sm_percent for use in uses} == {Absent("NVML does not say which process it is", AbsentKind.NOT_SAMPLED)}


def test_each_process_under_pid_0_is_a_row_of_its_own(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.clear("processes")
    for number, mib in enumerate((300, 200, 200)):
        fake_gpus.process(4_100_000 + number, {0: mib}, flags=GHOST | NO_PID)
    devices = looks.look()
    look = ProcessSource().read(devices)
    assert [process.state.value for process in look.processes] == ["in another container"] * 3
    assert len({process.identity for process in look.processes}) == 3
    assert "3 processes on the devices are in another container" in (look.problem or "")
    rows = process_rows_of(Snapshot(time=1000.0, devices=devices, processes=look), View(), Appearance())
    assert len({row.key for row in rows}) == 3
    assert [row.pids for row in rows] == [()] * 3
    body = document(Snapshot(time=1000.0, devices=devices, processes=look))["devices"][0]
    assert [process["used_bytes"] >> 20 for process in body["processes"]] == [300, 200, 200]
    assert body["problems"] == ["process 0: in another container"]


@pytest.mark.parametrize("kind", ["Compute", "Graphics", "MPSCompute"])
def test_what_no_list_names_is_unknown_where_a_list_fails(fake_gpus: FakeGpus, looks: Looks, kind: str) -> None:
    fake_gpus.fault(f"nvmlDeviceGet{kind}RunningProcesses*", error=999)
    devices = looks.look()
    snapshot = Snapshot(time=1000.0, devices=devices, processes=ProcessSource().read(devices))
    assert snapshot.processes.unattributed == ()
    body = document(snapshot)["devices"][0]
    assert body["unattributed_bytes"] is None
    assert "The processes on this GPU cannot be listed: unknown error in the driver." in body["problems"]

"""Each rule about the machine: a scene in which it speaks, how long that takes, and scenes in which it does not."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from gputui.explain.machine.rules import RULES
from gputui.explain.machine.watch import Watch
from gputui.model.history import History
from gputui.model.machine.device import DeviceLook, Lost, NvLinks, PcieLink, RemappedRows, Throttled, Xid
from gputui.model.machine.host import HostMemory, Space
from gputui.model.machine.owner import Owner
from gputui.model.machine.process import Identity, Process, ProcessState, Rank, Unattributed
from gputui.model.machine.snapshot import Attention, Snapshot
from gputui.model.reading import Absent
from gputui.sources.demo_machine import DemoMachine
from gputui.units import GIB, MIB
from tests.explain.machine.scenes import Machine
from tests.ui import scenes

IDLE = {"gpu_utilization_percent": 0, "power_w": 70.0}
SPINNING = {
    **scenes.PROFILE,
    "gpu_utilization_percent": 100,
    "sm_active_percent": 18.0,
    "tensor_percent": 0.0,
    "dram_percent": 2.0,
    "power_w": 118.0,
}
GEN_3 = PcieLink(3, 16, 5, 16)


def gpu(**changes: object) -> Snapshot:
    return scenes.snapshot((scenes.device(**changes),))


def held(*processes: Process, **changes: object) -> Snapshot:
    """An idle GPU with these processes on it."""
    return scenes.snapshot((scenes.device(**{**IDLE, **changes}),), processes)


def process(pid: int = 1000, **changes: object) -> Process:
    """An idle process."""
    readings = {"uses": (scenes.use(0, pid, 20.0, sm_percent=0),), "owner": Owner(), **changes}
    return scenes.process(pid, **readings)


def host(**changes: object) -> Snapshot:
    return scenes.snapshot(scenes.devices(1), host=scenes.HOST._replace(**changes))


def rank(number: int, *uses: tuple[int, float]) -> Process:
    held_by = tuple(scenes.use(device, 2000 + number, gib) for device, gib in uses)
    return scenes.process(2000 + number, uses=held_by, rank=Rank(number, 2, number, 1999))


def ranks(*processes: Process) -> Snapshot:
    return scenes.snapshot(scenes.devices(2), processes)


def memory(share: float) -> HostMemory:
    used = int(512 * GIB * share)
    return HostMemory(512 * GIB, used, 512 * GIB - used, GIB, GIB)


UNACCOUNTED = Unattributed("GPU-00000000", 2 * GIB, "a process that is hidden")
XID_79 = scenes.snapshot((), devices=DeviceLook(devices=scenes.devices(1), xids=(Xid("GPU-00000000", 79, scenes.NOW),)))


class Case(NamedTuple):
    """A scene in which the rule speaks after `after_s`, with these words; in `nearly` it is silent."""

    snapshot: Snapshot
    after_s: float
    words: str
    nearly: Snapshot


SPEAKING = {
    "driver": Case(gpu()._replace(devices_age_s=35.0), 0, "not answered for 35s", gpu()._replace(devices_age_s=15.0)),
    "lost": Case(gpu(lost=Lost("GPU is lost", "reboot")), 0, "GPU 0: Does not answer: GPU is lost", gpu()),
    "xid": Case(XID_79, 0, "XID 79: the GPU has fallen off the bus", gpu()),
    "recovery": Case(gpu(recovery_action="GPU reset"), 0, "asks for a recovery action", gpu(recovery_action="none")),
    "ecc": Case(gpu(ecc_uncorrected=3), 0, "3 memory errors", gpu(ecc_uncorrected=Absent("not supported"))),
    "rows": Case(
        gpu(remapped_rows=RemappedRows(0, 1, pending=True, failed=False)),
        0,
        "wait to be replaced",
        gpu(remapped_rows=RemappedRows(0, 1, pending=False, failed=False)),
    ),
    "nvlink": Case(
        gpu(nvlinks=NvLinks(17, 18, None, None)), 0, "1 of 18 NVLinks", gpu(nvlinks=NvLinks(0, 18, None, None))
    ),
    "pcie": Case(gpu(pcie=GEN_3), 110, "PCIe runs at gen 3 x16", gpu(**IDLE, pcie=GEN_3)),
    "slowed": Case(
        gpu(throttled=Throttled(0.0, 40.0), temperature_c=91),
        300,
        "Heat lowers its clocks 40% of the time",
        gpu(throttled=Throttled(90.0, 2.0)),
    ),
    "host": Case(host(memory=memory(0.97)), 0, "host: Host memory is nearly full: 97%", host(memory=memory(0.9))),
    "not_working": Case(gpu(**SPINNING), 60, "Busy, and hardly working", gpu(**{**SPINNING, "power_w": 400.0})),
    "idle_held": Case(
        held(process(), process(1001, uses=(scenes.use(0, 1001, 50.0),))),
        3602,
        "Held and not used: ana (PID 1001) and 1 more hold 70.0 GiB",
        held(process(), gpu_utilization_percent=30),
    ),
    "orphan": Case(held(process(is_orphan=True)), 62, "An orphan holds 20.0 GiB", held(process())),
    "unaccounted": Case(
        scenes.snapshot(scenes.devices(1), unattributed=(UNACCOUNTED,)),
        62,
        "2.0 GiB in use that no process accounts for",
        scenes.snapshot(scenes.devices(1), unattributed=(UNACCOUNTED._replace(is_usual=True),)),
    ),
    "context": Case(
        ranks(rank(0, (0, 20.0)), rank(1, (1, 20.0), (0, 0.5))),
        62,
        "Rank 1 has a context on the device of rank 0: 512 MiB",
        ranks(rank(0, (0, 20.0)), rank(1, (1, 20.0), (0, 18.0))),
    ),
}


@pytest.mark.parametrize("kind", SPEAKING)
def test_a_rule_speaks_when_its_time_has_come_and_not_before(kind: str) -> None:
    case = SPEAKING[kind]
    machine = Machine()
    step_s = 20.0 if case.after_s > 600 else 2.0
    if case.after_s:
        machine.pass_time(case.after_s * 0.7, case.snapshot, step_s)
        assert kind not in machine.kinds
    findings = machine.pass_time(case.after_s * 0.3 + 2, case.snapshot, step_s)
    (finding,) = [finding for finding in findings if finding.kind == kind]
    assert case.words in f"{finding.where}: {finding.title}"
    assert finding.evidence
    assert finding.remedy
    assert kind not in [each.kind for each in Machine().pass_time(case.after_s + 10, case.nearly, step_s)]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("hw_thermal_slowdown", "Heat"),
        ("hw_power_brake_slowdown", "The power supply"),
        ("sw_power_cap", ""),
    ],
)
def test_without_a_counter_the_reasons_of_each_look_tell_what_lowers_the_clocks(reason: str, words: str) -> None:
    hot = gpu(throttled=Absent("not supported"), throttle_reasons=(reason,))
    assert [finding.title.startswith(words) for finding in Machine().pass_time(302, hot)] == [True] * bool(words)


def test_every_rule_has_a_scene() -> None:
    elsewhere = {"gone", "input"}  # below, and in test_input.py
    assert {rule.kind for rule in RULES} == SPEAKING.keys() | elsewhere


def test_a_gpu_that_is_no_longer_listed_is_gone() -> None:
    machine = Machine()
    machine.pass_time(4, scenes.snapshot(scenes.devices(2)))
    (finding,) = machine.pass_time(2, scenes.snapshot(scenes.devices(1)))
    assert (finding.kind, finding.where, finding.since) == ("gone", "GPU 1", machine.now)
    assert machine.pass_time(2, scenes.snapshot(scenes.devices(2))) == ()


def test_a_driver_that_stops_working_is_one_finding_and_not_one_for_each_gpu() -> None:
    machine = Machine()
    machine.pass_time(4, scenes.snapshot(scenes.devices(2)))
    broken = scenes.snapshot(devices=DeviceLook(problem=scenes.PROBLEM))
    assert [finding.title for finding in machine.pass_time(2, broken)] == ["NVML has stopped working"]
    assert Machine().pass_time(2, broken) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"gpu_utilization_percent": 80},
        {"tensor_percent": 30.0},
        {"dram_percent": 40.0},
        {"fp32_percent": 60.0},
        {"sm_active_percent": 80.0},
        {"power_w": 400.0},
        {"tensor_percent": Absent("this GPU has no GPM")},
        {"power_limit_w": Absent("no permission")},
    ],
    ids=" ".join,
)
def test_one_signal_never_says_that_a_gpu_does_not_work(change: dict[str, object]) -> None:
    assert "not_working" not in [each.kind for each in Machine().pass_time(90, gpu(**{**SPINNING, **change}))]


def test_without_profiling_power_and_links_are_two_signals() -> None:
    quiet = {"pcie_rx_bytes_per_s": MIB, "pcie_tx_bytes_per_s": MIB, "tensor_percent": Absent("this GPU has no GPM")}
    (finding,) = Machine().pass_time(60, gpu(**{**SPINNING, **quiet}))
    assert finding.evidence[1:] == ("It takes at most 118 W of 700 W.", "PCIe carries at most 1.0 MiB/s.")


def test_a_gpu_that_was_used_lately_is_not_held_idle_and_it_is_said_since_when() -> None:
    machine = Machine()
    machine.pass_time(300, held(process(), gpu_utilization_percent=90))
    assert machine.pass_time(3000, held(process()), step_s=10.0) == ()
    (finding,) = machine.pass_time(700, held(process()), step_s=10.0)
    assert scenes.NOW + 300 <= finding.since <= scenes.NOW + 370
    assert not finding.is_older
    assert finding.process == process().identity


def test_what_was_there_at_the_first_look_may_be_older() -> None:
    (finding,) = Machine().pass_time(2, gpu(ecc_uncorrected=1))
    assert finding.is_older


@pytest.mark.parametrize(
    "orphan",
    [
        process(is_orphan=True, owner=Owner(unit="ollama.service")),
        process(is_orphan=True, uses=(scenes.use(0, 1000, 20.0, sm_percent=30),)),
        process(is_orphan=True, uses=(scenes.use(0, 1000, 0.05, sm_percent=0),)),
        process(is_orphan=True, state=ProcessState.ZOMBIE),
    ],
    ids=["a service", "it computes", "it holds next to nothing", "it has ended"],
)
def test_these_are_no_orphans_that_matter(orphan: Process) -> None:
    assert Machine().pass_time(120, held(orphan)) == ()


def test_a_finding_shows_no_password_of_a_command() -> None:
    orphan = process(is_orphan=True, command="python train.py --api-key=abc123secret")
    (finding,) = Machine().pass_time(70, held(orphan))
    assert "abc123secret" not in " ".join(finding.evidence)


def test_memory_that_fills_up_is_said_with_the_time_that_is_left() -> None:
    machine = Machine()
    for minute in range(11):
        machine.pass_time(60, host(shm=Space(100 * GIB, (70 + minute) * GIB)), step_s=10.0)
    (finding,) = machine.watch.findings
    assert finding.title.startswith("/dev/shm will be full in about 20:")
    assert "--shm-size" in finding.remedy


def test_memory_that_is_much_and_does_not_grow_is_no_finding() -> None:
    assert Machine().pass_time(1200, host(shm=Space(100 * GIB, 90 * GIB)), step_s=10.0) == ()


def test_swap_matters_only_where_memory_is_full() -> None:
    swap = Space(8 * GIB, 8 * GIB)
    assert Machine().pass_time(4, host(swap=swap)) == ()
    assert len(Machine().pass_time(4, host(swap=swap, memory=memory(0.97)))) == 2


def test_while_the_driver_is_silent_findings_about_devices_stay() -> None:
    machine = Machine()
    machine.pass_time(4, gpu(ecc_uncorrected=1))
    machine.pass_time(4, scenes.snapshot()._replace(devices_age_s=12.0))
    assert machine.kinds == ["driver", "ecc"]


def test_a_clock_that_is_set_back_stops_nothing() -> None:
    machine = Machine()
    machine.pass_time(10, gpu())
    machine.now -= 3600
    assert [finding.kind for finding in machine.pass_time(4, gpu(ecc_uncorrected=1))] == ["ecc"]


def test_after_a_pause_nothing_is_known_of_the_time_between() -> None:
    machine = Machine()
    machine.pass_time(1800, held(process()), step_s=10.0)
    machine.now += 3600
    assert machine.pass_time(600, held(process()), step_s=10.0) == ()


def test_problems_come_first_then_the_oldest() -> None:
    machine = Machine()
    machine.pass_time(120, gpu(pcie=GEN_3))
    machine.pass_time(10, gpu(pcie=GEN_3, ecc_uncorrected=1))
    assert machine.kinds == ["ecc", "pcie"]


def test_an_xid_that_nobody_knows_is_said_as_well() -> None:
    look = DeviceLook(devices=scenes.devices(1), xids=(Xid("GPU-00000000", 999, scenes.NOW),) * 2)
    (finding,) = Machine().pass_time(2, scenes.snapshot(devices=look))
    assert finding.title == "XID 999: an error that gputui does not know"
    assert finding.evidence[0] == "Reported 2 times since gputui watches."


def test_a_single_look_tells_what_a_minute_would_confirm() -> None:
    snapshot = held(process(is_orphan=True))
    watch = Watch(is_single_look=True)
    assert [finding.kind for finding in watch.take(snapshot, History())] == ["orphan"]


@pytest.mark.parametrize(("started_ago_s", "since_ago_s"), [(9 * 86400, 4 * 86400), (7200, 7200), (600, None)])
def test_what_is_held_since_tuesday_by_the_record_is_found_at_once(
    started_ago_s: float, since_ago_s: float | None
) -> None:
    snapshot = held(process(identity=Identity(1000, scenes.NOW - started_ago_s)))
    machine = Machine()
    found = machine.pass_time(2, snapshot._replace(idle_since={"GPU-00000000": scenes.NOW - 4 * 86400}))
    assert [scenes.NOW - finding.since for finding in found] == ([] if since_ago_s is None else [since_ago_s])
    assert not any(finding.is_older for finding in found)
    assert len(machine.pass_time(20, snapshot)) == len(found)  # only the first looks have the record


def test_what_is_held_and_not_used_is_said_with_whose_program_it_is() -> None:
    snapshot = held(process(owner=Owner(job="4711"), command=f"python notebook.py --api-key=abc123secret {'x' * 999}"))
    (finding,) = Machine().pass_time(4, snapshot._replace(idle_since={"GPU-00000000": 0.0}), 3700.0)
    (evidence,) = finding.evidence
    assert evidence.startswith("ana (PID 1000, Slurm job 4711) holds 20.0 GiB in notebook.py --api-key=")
    assert len(evidence) < 160
    assert "secret" not in evidence


def test_nothing_is_wrong_with_the_demonstration_in_ten_minutes() -> None:
    machine = Machine()
    demo = DemoMachine(clock=lambda: machine.now)
    for _ in range(300):
        assert machine.pass_time(2, demo.look(Attention(), 2.0)) == ()


def test_an_identity_is_what_enter_goes_to() -> None:
    (finding,) = Machine().pass_time(70, held(process(is_orphan=True)))
    assert finding.process == Identity(1000, scenes.NOW - 3600.0)
    assert finding.device == "GPU-00000000"

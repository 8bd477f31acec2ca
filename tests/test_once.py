"""gputui --once: the names, nulls and reasons of the JSON document, and the table."""

from __future__ import annotations

import json
import os
from threading import Event

import pytest
from rich.cells import cell_len

from gputui.model.machine.device import Device, DeviceLook, DeviceMemory, DeviceUse, Driver, Lost, MigPlace, PcieLink
from gputui.model.machine.host import Host, HostMemory, Space
from gputui.model.machine.owner import Owner
from gputui.model.machine.process import Identity, Process, ProcessLook, ProcessState, Unattributed
from gputui.model.machine.profile_readings import PROFILED
from gputui.model.machine.snapshot import Attention, Snapshot
from gputui.model.reading import NOT_LOOKED_AT, NOT_READ, Absent, AbsentKind, Reading
from gputui.once.document import document
from gputui.once.look import look, read_in_time
from gputui.once.run import findings_of
from gputui.once.table import Column, table
from gputui.once.table import plain as printed
from gputui.output import columns_of
from gputui.settings import Settings
from gputui.sources.demo_machine import DemoMachine
from gputui.sources.host import HostSource
from gputui.sources.nvml import NvmlSource
from gputui.sources.processes import MeanShares, ProcessSource
from gputui.units import GIB, MIB
from tests.conftest import FakeGpus

DEVICE = Device(
    index=0,
    uuid="GPU-0",
    name="NVIDIA H100 80GB HBM3",
    bus_id="00000000:0F:00.0",
    memory=DeviceMemory(80 * GIB, 20 * GIB, 59 * GIB, 1 * GIB),
    gpu_utilization_percent=97,
    sm_active_percent=89.06,
    tensor_percent=38.0,
    dram_percent=41.0,
    profile_source="gpm",
    memory_utilization_percent=40,
    temperature_c=61,
    fan_percent=Absent("not supported by this device", AbsentKind.NOT_SUPPORTED),
    power_w=512.34,
    power_limit_w=700.0,
    sm_clock_mhz=1755,
    memory_clock_mhz=2619,
    pstate="P0",
    throttle_reasons=("sw_power_cap",),
    pcie=PcieLink(5, 16, 5, 16),
    ecc_uncorrected=0,
)
USE = DeviceUse("GPU-0", 42, "C", 19 * GIB, 40)
PROCESS = Process(
    Identity(42, 1795160000.0),
    ProcessState.RUNNING,
    (USE,),
    user="ana",
    command="python train.py",
    cpu_percent=99.04,
    rss_bytes=5 * GIB,
    has_probe=True,
    owner=Owner(job="4711", step="0", environment="torch", unread="owned by ana: permission denied"),
)
HOST = Host(
    hostname="node7",
    cpu_percent=12.04,
    load=(0.5, 0.4, 0.3),
    memory=HostMemory(100 * GIB, 30 * GIB, 70 * GIB, 20 * GIB, 1 * GIB),
    swap=Space(8 * GIB, 0),
)
SNAPSHOT = Snapshot(
    time=1795169075.3701,
    devices=DeviceLook(Driver("580.159.04", "13.0"), (DEVICE,), (USE,)),
    host=HOST,
    processes=ProcessLook((PROCESS,), (Unattributed("GPU-0", 1 * GIB, "a process of another container"),)),
)


def plain(snapshot: Snapshot, width: int, *, in_color: bool = False) -> str:
    return printed(snapshot, width, Settings(), in_color=in_color)


def with_device(**changes: object) -> Snapshot:
    """The snapshot with changes to its device."""
    return SNAPSHOT._replace(devices=SNAPSHOT.devices._replace(devices=(DEVICE._replace(**changes),)))


def with_process(process: Process) -> Snapshot:
    return SNAPSHOT._replace(processes=ProcessLook((process,)))


@pytest.mark.parametrize("owner", [Owner(), Owner(unread="owned by ana: permission denied"), NOT_READ])
def test_a_process_of_nobody_s_has_no_owner(owner: Reading[Owner]) -> None:
    (device,) = document(with_process(PROCESS._replace(owner=owner)))["devices"]
    assert device["processes"][0]["owner"] is None
    assert device["problems"] == []


def test_true_utilisation_that_is_not_measured_is_null_as_a_whole_with_the_reason() -> None:
    reason = Absent("this GPU has no GPM", AbsentKind.NOT_SUPPORTED)
    snapshot = with_device(**dict.fromkeys(PROFILED, reason))
    (device,) = document(snapshot)["devices"]
    assert device["profile"] is None
    assert "profile: this GPU has no GPM" in device["problems"]
    assert "GPM" not in plain(snapshot, 160)


def test_the_table_has_a_column_of_jobs_where_a_process_is_in_one() -> None:
    assert "4711.0" in plain(SNAPSHOT, 160)
    assert "Job" not in plain(with_process(PROCESS._replace(owner=Owner(environment="torch"))), 160)


def test_the_document_has_exactly_the_documented_names() -> None:
    assert document(SNAPSHOT) == {
        "schema": "gputui.once/1",
        "time": 1795169075.37,
        "hostname": "node7",
        "driver": "580.159.04",
        "cuda": "13.0",
        "devices": [
            {
                "index": 0,
                "uuid": "GPU-0",
                "name": "NVIDIA H100 80GB HBM3",
                "bus_id": "00000000:0F:00.0",
                "mig": None,
                "lost": False,
                "memory": {
                    "total_bytes": 80 * GIB,
                    "used_bytes": 20 * GIB,
                    "free_bytes": 59 * GIB,
                    "driver_reserved_bytes": 1 * GIB,
                },
                "gpu_utilization_percent": 97,
                "memory_utilization_percent": 40,
                "profile": {
                    "sm_active_percent": 89.1,
                    "sm_occupancy_percent": None,
                    "tensor_percent": 38.0,
                    "dram_percent": 41.0,
                    "source": "gpm",
                },
                "temperature_c": 61,
                "fan_percent": None,
                "power_w": 512.3,
                "power_limit_w": 700.0,
                "sm_clock_mhz": 1755,
                "memory_clock_mhz": 2619,
                "pstate": "P0",
                "throttle_reasons": ("sw_power_cap",),
                "throttled": {"power_percent": None, "thermal_percent": None},
                "pcie": {"generation": 5, "width": 16, "tx_bytes_per_s": None, "rx_bytes_per_s": None},
                "ecc_uncorrected": 0,
                "unattributed_bytes": 1 * GIB,
                "processes": [
                    {
                        "pid": 42,
                        "type": "C",
                        "used_bytes": 19 * GIB,
                        "sm_percent": 40,
                        "user": "ana",
                        "cpu_percent": 99.0,
                        "rss_bytes": 5 * GIB,
                        "started": 1795160000.0,
                        "command": "python train.py",
                        "probe": True,
                        "rank": None,
                        "world_size": None,
                        "rendezvous": None,
                        "torch": None,
                        "owner": {
                            "job": "4711",
                            "step": "0",
                            "namespace": None,
                            "pod": None,
                            "container": None,
                            "container_runtime": None,
                            "unit": None,
                            "ray_job": None,
                            "environment": "torch",
                            "session": None,
                            "job_source": None,
                        },
                    }
                ],
                "problems": [],
            }
        ],
        "host": {
            "cpu_percent": 12.0,
            "load": (0.5, 0.4, 0.3),
            "memory_total_bytes": 100 * GIB,
            "memory_used_bytes": 30 * GIB,
            "memory_limit_bytes": None,
            "memory_limit_used_bytes": None,
            "processor_limit": None,
            "swap_used_bytes": 0,
        },
        "findings": [],
        "problems": [],
    }


def test_a_mig_instance_has_its_parent_and_ids() -> None:
    assert document(with_device(mig=MigPlace(1, 2, 0)))["devices"][0]["mig"] == {
        "parent": 1,
        "gpu_instance": 2,
        "compute_instance": 0,
    }


@pytest.mark.parametrize(
    ("reason", "problems"),
    [
        pytest.param(Absent("insufficient permissions"), ["power_w: insufficient permissions"], id="an error"),
        pytest.param(Absent("not supported by this device", AbsentKind.NOT_SUPPORTED), [], id="not supported"),
        pytest.param(NOT_LOOKED_AT, [], id="not asked"),
    ],
)
def test_an_absent_reading_is_null_and_a_failure_is_a_problem(reason: Absent, problems: list[str]) -> None:
    device = document(with_device(power_w=reason))["devices"][0]
    assert (device["power_w"], device["problems"]) == (None, problems)


def test_a_lost_device_has_one_problem() -> None:
    lost = Absent("GPU is lost")
    device = document(with_device(lost=Lost("GPU is lost", "reboot."), power_w=lost, temperature_c=lost, memory=lost))[
        "devices"
    ][0]
    assert device["problems"] == ["GPU is lost: reboot."]
    assert device["memory"] == dict.fromkeys(("total_bytes", "used_bytes", "free_bytes", "driver_reserved_bytes"))
    assert device["unattributed_bytes"] is None


@pytest.mark.parametrize("state", [ProcessState.VANISHED, ProcessState.ELSEWHERE, ProcessState.HIDDEN])
def test_a_process_unknown_to_the_host_has_nulls_and_one_problem(state: ProcessState) -> None:
    device = document(with_process(Process(Identity(42, None), state, user=Absent("gone"))))["devices"][0]
    row = device["processes"][0]
    assert (row["pid"], row["used_bytes"], row["user"], row["command"]) == (42, 19 * GIB, None, None)
    assert device["problems"] == [f"process 42: {state.value}"]


def test_a_process_the_host_never_saw_is_vanished() -> None:
    device = document(SNAPSHOT._replace(processes=ProcessLook()))["devices"][0]
    assert device["problems"] == ["process 42: vanished"]


def test_problems_of_driver_host_and_processes_are_document_problems() -> None:
    snapshot = SNAPSHOT._replace(
        devices=DeviceLook(problem="No driver."),
        host=HOST._replace(load=Absent("/proc/loadavg: Permission denied")),
        processes=ProcessLook(problem="A private PID namespace."),
    )
    body = document(snapshot)
    assert body["problems"] == ["No driver.", "A private PID namespace.", "host load: /proc/loadavg: Permission denied"]
    assert (body["devices"], body["driver"], body["host"]["load"]) == ([], None, None)


def once() -> dict[str, object]:
    """The document of one look with the real sources."""
    return document(look(NvmlSource(), HostSource(), ProcessSource(cpu=MeanShares())))


def test_healthy_devices_have_no_problems(fake_gpus: FakeGpus) -> None:
    fake_gpus.up(2, mig=2, busy=True)
    fake_gpus.process(os.getpid(), {0: 4000})
    body = once()
    assert [device["problems"] for device in body["devices"]] == [[], [], [], []]
    assert body["problems"] == []


def test_once_has_cpu_percentages_of_host_and_processes(fake_gpus: FakeGpus) -> None:
    fake_gpus.process(os.getpid(), {0: 4000})
    body = json.loads(json.dumps(once(), allow_nan=False))
    (row,) = body["devices"][0]["processes"]
    assert row["pid"] == os.getpid()
    assert row["cpu_percent"] > 0
    assert row["used_bytes"] == 4000 * MIB
    assert 0 <= body["host"]["cpu_percent"] <= 100


def test_a_faulty_device_does_not_affect_others(fake_gpus: FakeGpus) -> None:
    fake_gpus.fault("nvmlDeviceGet*", device=1, error=15)
    first, second = once()["devices"]
    assert first["temperature_c"] == 34
    assert second["temperature_c"] is None
    assert "GPU is lost" in second["problems"][0]


class HangingDevices:
    """A driver that never answers."""

    def __init__(self) -> None:
        self.is_over = Event()

    def read(self) -> DeviceLook:
        self.is_over.wait()
        return DeviceLook()

    def close(self) -> None:
        """Hold nothing to close."""


def test_what_is_printed_of_a_lost_device_names_no_key() -> None:
    lost = with_device(lost=Lost("GPU is lost", "It has fallen off the bus: reset it, or reboot the machine it is in."))
    text = plain(lost._replace(findings=findings_of(lost)), 80)
    assert "GPU is lost: its finding says what to do" in text
    assert "Enter" not in text


def test_a_hanging_driver_is_a_problem_after_a_time_limit() -> None:
    devices = HangingDevices()
    assert "has not answered" in (read_in_time(devices, limit_s=0.01).problem or "")
    devices.is_over.set()


class BrokenDevices(HangingDevices):
    """A source with a bug."""

    def read(self) -> DeviceLook:
        raise ZeroDivisionError


def test_a_bug_in_a_source_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        read_in_time(BrokenDevices())


def demo() -> Snapshot:
    return DemoMachine().look(Attention(), 1.0)._replace(time=1_763_640_000.0)


@pytest.mark.parametrize("width", [1, 40, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, plain(demo(), width).splitlines())) <= max(width, 40)


def test_the_table_shows_devices_host_processes_and_problems() -> None:
    text = plain(with_device(power_w=Absent("insufficient permissions")), 120)
    rows = [" ".join(line.split()) for line in text.splitlines() if line]
    assert rows[0].startswith("node7 ")
    assert rows[0].endswith("driver 580.159.04 CUDA 13.0")
    assert rows[1:] == [
        "# Device GPU Tensor Memory Mem Temp Power Fan P",
        "0 H100 80GB HBM3 97% 38% 20.0G/80.0G 25% 61C - - P0 sw power cap",
        "CPU #......... 12% load 0.5 0.4 0.3 disk - in - out net - in - out",
        "RAM ###....... 30% 30.0G/100G 20.0G cache 1.0G shared swap 0B/8.0G",
        "GPU^ PID User Job Type GPU mem % SM% CPU% RSS Wrk Time Rank Command",
        "0 42 ana 4711.0 C 19.0G 24% 40 99 5.0G 2h31m @ train.py",
        "GPU 0: power_w: insufficient permissions",
        "GPU 0: 1.0 GiB unattributed: a process of another container",
    ]


def test_a_power_of_zero_is_a_reading() -> None:
    assert " 0/700W" in plain(with_device(power_w=0.0), 120)


def test_output_without_color_has_no_escape_sequences() -> None:
    assert "\x1b" not in plain(demo(), 100)
    assert "\x1b" in plain(demo(), 100, in_color=True)


def test_a_command_cannot_send_escape_sequences_to_the_terminal() -> None:
    evil = PROCESS._replace(command="run \x1b]0;owned\x07\x9b31m\nx")
    assert "run ?]0;owned??31m?x" in plain(with_process(evil), 120, in_color=True)


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    columns = (Column("N", str), Column("WORD", lambda n: "a" * n, is_text=True))
    assert table(columns, [1, 10], 80) == [" N  WORD", " 1  a", "10  aaaaaaaaaa"]


WIDE = [
    ("ana", "python train.py"),
    ("\u5c0f\u7530", "python \u8a13\u7df4.py"),
    ("jose\u0301", "python entrai\u0302nement.py"),
    ("\U0001f40d" * 20, "python \uff54\uff52\uff41\uff49\uff4e.py"),
]


def test_wide_letters_shift_no_column_and_no_line_is_wider_than_the_terminal() -> None:
    columns = (Column("USER", lambda row: row[0], is_text=True), Column("COMMAND", lambda row: row[1], is_text=True))
    title, *lines = table(columns, WIDE, 80)
    places = [cell_len(line[: line.index("python")]) for line in lines]
    assert places == [cell_len(title[: title.index("COMMAND")])] * len(WIDE)
    for width in range(3, 60):
        assert max(map(cell_len, table(columns, WIDE, width))) <= width
        assert [columns_of(line) for line in lines] == [cell_len(line) for line in lines]


def test_findings_are_in_the_document_and_printed_with_what_to_do() -> None:
    snapshot = with_device(ecc_uncorrected=2)
    snapshot = snapshot._replace(findings=findings_of(snapshot))
    finding, _ = document(snapshot)["findings"]
    assert list(finding) == ["kind", "weight", "device", "pid", "since", "title", "evidence", "remedy"]
    assert (finding["kind"], finding["weight"], finding["device"], finding["pid"]) == ("ecc", "problem", 0, None)
    assert finding["since"] == round(snapshot.time, 3)
    text = plain(snapshot, 100)
    assert " ! GPU 0: 2 memory errors that ECC could not correct\n   > Programs that ran then" in text

"""Memory of a device that no process accounts for: a table of causes."""

import pytest

from gputui.model.machine.device import Device, DeviceLook, DeviceMemory, DeviceUse, MigMode, MigPlace
from gputui.model.machine.process import Identity, Process, ProcessState
from gputui.model.reading import Absent
from gputui.sources.processes.unattributed import unattributed
from gputui.units import GIB, MIB
from tests.conftest import FakeGpus
from tests.sources.conftest import Looks

TOTAL = 80 * GIB
MIG = MigMode(is_enabled=True, is_enabled_after_reset=True)


def memory(used_bytes, reserved_bytes=500 * MIB):
    return DeviceMemory(TOTAL, used_bytes, TOTAL - used_bytes - (reserved_bytes or 0), reserved_bytes)


def device(used_bytes=10 * GIB, reserved_bytes=500 * MIB, **fields):
    return Device(0, "GPU-0", "H100", "", memory=memory(used_bytes, reserved_bytes), **fields)


def process(used_bytes=9 * GIB, pid=42, kind="C", state=ProcessState.RUNNING, command="python train.py", key="GPU-0"):
    return Process(Identity(pid, 1.0), state, uses=(DeviceUse(key, pid, kind, used_bytes),), command=command)


def remainders(devices, processes=(), *, is_private=False):
    return unattributed(DeviceLook(devices=tuple(devices)), processes, is_private=is_private)


@pytest.mark.parametrize(
    ("board", "processes", "is_private", "words"),
    [
        (device(), [process()], False, "the driver, or a process that ended or is hidden"),
        (device(1 * GIB), [], False, "a process that is hidden (another container, another user's)"),
        (device(), [process(Absent("not available"))], False, "an upper bound: it includes the memory of PID 42"),
        (device(), [process(Absent("x"), 0)], False, "it includes the memory of processes in other containers, which"),
        (device(), [process(Absent("x"), pid) for pid in (0, 7, 0)], False,
         "it includes the memory of PID 7 and processes in other containers, which is not known (x)"),
        (device(), [process(state=ProcessState.ZOMBIE)], False, "what is left of PID 42, which ended"),
        (device(), [process(state=ProcessState.VANISHED)], False, "what is left of PID 42, which ended"),
        (device(), [process(kind="M")], False, "the MPS server"),
        (device(), [process(command="/usr/bin/nvidia-cuda-mps-server")], False, "the MPS server"),
        (device(), [process()], True, "processes outside this container"),
        (device(700 * MIB, None), [], False, "the driver's own reserve"),
        (device(20 * GIB, None), [], False, "a process that is hidden"),
        (device(display_active=True), [process()], False, "the display"),
        (device(mig=MigPlace(1, 3, 0)), [process()], False, "processes of this MIG instance that NVML does not show"),
        (device(mig_mode=MIG), [], False, "what the driver keeps for MIG"),
    ],
    ids=[
        "a process and more", "no process", "NVML reports no process memory", "nor of one without a PID",
        "nor of several", "a zombie", "a vanished process",
        "an MPS client", "the MPS server itself", "in a container", "NVML version 1 counts the reserve",
        "more than any driver reserve", "a display", "a MIG instance", "the GPU around MIG instances",
    ],
)  # fmt: skip
def test_unattributed_memory_has_a_likely_cause(board, processes, is_private, words):
    (line,) = remainders([board], processes, is_private=is_private)
    assert line.device == "GPU-0"
    assert words in line.cause


@pytest.mark.parametrize(
    ("instances", "display", "words"),
    [(3, 0, "what the driver keeps for MIG"), (0, 1, "the display"), (0, 0, "a process that is hidden")],
    ids=["the GPU around MIG instances", "a display", "neither"],
)
def test_what_nvml_reports_leads_to_the_cause(fake_gpus: FakeGpus, looks: Looks, instances, display, words):
    fake_gpus.up(1, mig=instances)
    fake_gpus.set(0, display=display)
    fake_gpus.ghost(1, device=0, mib=300)
    (line,) = remainders(looks.look().devices[:1])
    assert words in line.cause


def test_unattributed_memory_is_used_minus_process_memory():
    (line,) = remainders([device(10 * GIB)], [process(3 * GIB, pid=1), process(5 * GIB, pid=2)])
    assert line.used_bytes == 2 * GIB


def test_process_memory_counts_only_on_its_own_device():
    other = Device(1, "GPU-1", "H100", "", memory=memory(4 * GIB))
    lines = remainders([device(4 * GIB), other], [process(4 * GIB, key="GPU-1")])
    assert [(line.device, line.used_bytes) for line in lines] == [("GPU-0", 4 * GIB)]


@pytest.mark.parametrize(
    "board",
    [
        device(9 * GIB + 15 * MIB),
        device(9 * GIB + 40 * MIB, mig=MigPlace(0, 1, 0)),
        device(8 * GIB),
        device(shares_host_memory=True),
        Device(0, "GPU-0", "H100", "", memory=Absent("GPU is lost")),
    ],
    ids=["too little", "what an instance costs", "processes hold more", "host memory", "unknown"],
)
def test_insignificant_remainders_are_not_listed(board):
    assert remainders([board], [process(9 * GIB)]) == ()


def test_instances_account_for_their_part_of_the_gpu():
    instances = [
        Device(0, f"MIG-{number}", "H100 MIG", "", mig=MigPlace(0, number, 0), memory=memory(used))
        for number, used in ((1, 6 * GIB), (2, 3 * GIB))
    ]
    processes = [process(6 * GIB, key="MIG-1")]
    lines = remainders([device(9 * GIB + 200 * MIB, mig_mode=MIG), *instances], processes)
    assert [(line.device, line.used_bytes) for line in lines] == [("GPU-0", 200 * MIB), ("MIG-2", 3 * GIB)]

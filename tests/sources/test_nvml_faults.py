"""What goes wrong with one device, and what the NVML source makes of it."""

from __future__ import annotations

import pytest

from gputui.model.device import Device
from gputui.model.reading import Absent
from tests.conftest import FakeGpus
from tests.sources.conftest import Looks

NO_PERMISSION, GPU_IS_LOST, RESET_REQUIRED, UNKNOWN = 4, 15, 16, 999
LOST = Absent("GPU is lost")


def is_well(device: Device) -> bool:
    return device.lost is None and device.temperature_c == 34 + device.index


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (GPU_IS_LOST, ("GPU is lost", "xid", "--gpu-reset", "reboot")),
        (RESET_REQUIRED, ("needs a reset", "xid", "--gpu-reset")),
    ],
    ids=["lost", "reset required"],
)
def test_a_lost_gpu_keeps_its_row_with_the_remedy(fake_gpus: FakeGpus, looks: Looks, error: int, words: tuple) -> None:
    fake_gpus.up(3)
    before = looks.look().devices
    fake_gpus.fault("nvmlDeviceGet*", device=1, error=error)
    first, lost, third = looks.look().devices
    assert lost.lost is not None
    assert all(word in lost.lost for word in words)
    assert is_well(first)
    assert is_well(third)
    assert (lost.key, lost.name, lost.bus_id) == (before[1].key, before[1].name, before[1].bus_id)


def test_of_a_lost_gpu_only_what_never_changes_is_still_shown(fake_gpus: FakeGpus, looks: Looks) -> None:
    looks.look()
    fake_gpus.fault("nvmlDeviceGet*", device=1, error=GPU_IS_LOST)
    lost = looks.look().devices[1]
    assert (lost.memory, lost.gpu_utilization_percent, lost.power_w, lost.nvlinks) == (LOST, LOST, LOST, LOST)
    assert (lost.serial, lost.max_sm_clock_mhz) == ("1654223000001", 1980)


def test_a_gpu_that_was_never_seen_is_known_by_its_index(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.fault("nvmlDeviceGet*", device=0, error=GPU_IS_LOST)
    lost, other = looks.look().devices
    assert (lost.key, lost.name, lost.serial) == ("index 0", "GPU 0", LOST)
    assert lost.lost is not None
    assert is_well(other)


def test_a_gpu_that_may_not_be_opened_says_so(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.fault("nvmlDeviceGetHandleByIndex*", device=0, error=NO_PERMISSION)
    refused, other = looks.look().devices
    assert refused.lost == "No permission to open this GPU: check the access rights of its /dev/nvidia* file."
    assert is_well(other)


@pytest.mark.parametrize("is_seen_before", [True, False], ids=["seen before", "lost from the start"])
def test_a_lost_gpu_comes_back(fake_gpus: FakeGpus, looks: Looks, *, is_seen_before: bool) -> None:
    if is_seen_before:
        looks.look()
    fake_gpus.fault("nvmlDeviceGet*", device=1, error=GPU_IS_LOST)
    assert looks.look().devices[1].lost
    fake_gpus.clear("faults")
    assert looks.look().devices[1].lost  # it is tried every three seconds
    assert is_well(looks.look(after_s=2).devices[1])


def test_a_lost_gpu_is_left_alone_between_tries(fake_gpus: FakeGpus, looks: Looks) -> None:
    looks.look()
    fake_gpus.fault("nvmlDeviceGet*", device=1, error=GPU_IS_LOST)
    looks.look()
    fake_gpus.clear("calls")
    looks.look()
    assert fake_gpus.calls()["nvmlDeviceGetMemoryInfo_v2"] == 1  # of device 0


def test_a_gpu_lost_between_two_calls_takes_no_process_of_others_with_it(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.ghost(4, mib=100)
    fake_gpus.fault("nvmlDeviceGetComputeRunningProcesses*", device=1, error=GPU_IS_LOST)
    look = looks.look()
    assert look.devices[1].lost
    assert {use.device for use in look.uses} == {look.devices[0].key}
    assert len(look.uses) == 2


def test_a_lost_gpu_keeps_its_mig_instances(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.up(1, mig=2)
    before = looks.look().devices
    for device in range(3):
        fake_gpus.fault("nvmlDeviceGet*", device=device, error=GPU_IS_LOST)
    lost = looks.look().devices
    assert [device.key for device in lost] == [device.key for device in before]
    assert all(device.lost for device in lost)
    fake_gpus.clear("faults")
    assert [device.lost for device in looks.look(after_s=3).devices] == [None] * 3


def test_an_unknown_error_of_one_call_costs_one_reading(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.fault("nvmlDeviceGetTemperature", device=0, error=UNKNOWN)
    device = looks.look().devices[0]
    assert device.temperature_c == Absent("unknown error in the driver")
    assert (device.lost, device.power_w) == (None, 72.0)

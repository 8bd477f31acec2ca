"""Faults of one device, and how the NVML source reports them."""

from __future__ import annotations

import pynvml
import pytest

from gputui.model.machine.device import Device
from gputui.model.reading import Absent
from gputui.sources.nvml.calls import field_value
from tests.conftest import FakeGpus
from tests.sources.conftest import Looks

NO_PERMISSION, GPU_IS_LOST, RESET_REQUIRED = 4, 15, 16
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
    assert all(word in lost.lost.sentence for word in words)
    assert is_well(first)
    assert is_well(third)
    assert (lost.key, lost.name, lost.bus_id) == (before[1].key, before[1].name, before[1].bus_id)


def test_a_lost_gpu_keeps_only_its_constant_readings(fake_gpus: FakeGpus, looks: Looks) -> None:
    looks.look()
    fake_gpus.fault("nvmlDeviceGet*", device=1, error=GPU_IS_LOST)
    lost = looks.look().devices[1]
    assert (lost.memory, lost.gpu_utilization_percent, lost.power_w, lost.nvlinks) == (LOST, LOST, LOST, LOST)
    assert (lost.serial, lost.max_sm_clock_mhz) == ("1654223000001", 1980)


def test_a_gpu_lost_from_the_start_is_identified_by_its_index(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.fault("nvmlDeviceGet*", device=0, error=GPU_IS_LOST)
    lost, other = looks.look().devices
    assert (lost.key, lost.name, lost.serial) == ("index 0", "GPU 0", LOST)
    assert lost.lost is not None
    assert is_well(other)


def test_a_gpu_without_permission_is_lost_with_the_reason(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.fault("nvmlDeviceGetHandleByIndex*", device=0, error=NO_PERMISSION)
    refused, other = looks.look().devices
    assert refused.lost.sentence == "No permission to open this GPU: check the access rights of its /dev/nvidia* file."
    assert is_well(other)


@pytest.mark.parametrize("is_seen_before", [True, False], ids=["seen before", "lost from the start"])
def test_a_lost_gpu_recovers(fake_gpus: FakeGpus, looks: Looks, *, is_seen_before: bool) -> None:
    if is_seen_before:
        looks.look()
    fake_gpus.fault("nvmlDeviceGet*", device=1, error=GPU_IS_LOST)
    assert looks.look().devices[1].lost
    fake_gpus.clear("faults")
    assert looks.look().devices[1].lost  # it is retried every three seconds
    assert is_well(looks.look(after_s=2).devices[1])


def test_a_lost_gpu_is_not_called_between_retries(fake_gpus: FakeGpus, looks: Looks) -> None:
    looks.look()
    fake_gpus.fault("nvmlDeviceGet*", device=1, error=GPU_IS_LOST)
    looks.look()
    fake_gpus.clear("calls")
    looks.look()
    assert fake_gpus.calls()["nvmlDeviceGetMemoryInfo_v2"] == 1  # of device 0


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


def test_a_device_that_vanishes_and_returns_gets_its_row_back(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.ghost(4, mib=100)
    before = looks.look()
    fake_gpus.state.devices = 1
    gone = looks.look(after_s=5)
    assert gone.devices == before.devices[:1]
    assert [use.pid for use in gone.uses] == [use.pid for use in before.uses if use.device == gone.devices[0].key]
    fake_gpus.state.devices = 2
    assert looks.look(after_s=5) == before


@pytest.mark.parametrize("error", [GPU_IS_LOST, 28])
def test_a_lost_instance_does_not_affect_other_instances(fake_gpus: FakeGpus, looks: Looks, error: int) -> None:
    fake_gpus.up(1, mig=2)
    before = looks.look().devices
    fake_gpus.fault("nvmlDeviceGetMemoryInfo*", device=1, error=error)
    whole, lost, other = looks.look().devices
    assert (whole, other) == (before[0], before[2])
    assert lost.lost
    assert (lost.key, lost.index) == (before[1].key, 1)


def test_unreadable_text_affects_only_its_own_reading(fake_gpus: FakeGpus, looks: Looks) -> None:
    well = looks.look().devices
    fake_gpus.state.dev[0].uuid = b"GPU-\xff\xfe"
    fake_gpus.state.driver = b"\xff"
    fresh = Looks()
    look = fresh.look()
    assert look.driver.version == Absent("the driver answered with unreadable text")
    assert (look.devices[0].name, look.devices[0].key, look.devices[1]) == (well[0].name, "index 0", well[1])
    fresh.source.close()


@pytest.mark.parametrize("kind", [7, 200])
def test_a_field_of_an_unknown_type_is_absent(kind: int) -> None:
    value = pynvml.c_nvmlFieldValue_t(nvmlReturn=0, valueType=kind)
    assert field_value(value) == Absent(f"not known: NVML answered with a value of type {kind}")

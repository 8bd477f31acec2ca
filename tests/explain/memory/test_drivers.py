"""Which physical device each of a process's PyTorch indices means."""

import pytest

from gputui.explain.memory.drivers import UNKNOWN_DEVICE, driver_facts
from gputui.model.attached.target import Greeting, TorchDevice
from gputui.model.machine.device import Device, DeviceLook, DeviceMemory, DeviceUse, Driver
from gputui.model.reading import Absent
from gputui.units import GIB, MIB

GPUS = tuple(
    Device(index, f"GPU-{index}", "H100", "", memory=DeviceMemory(80 * GIB, index * GIB, 0, 0)) for index in range(2)
)
LOOK = DeviceLook(Driver("580.95.05", "13.0"), GPUS)


def facts(device: TorchDevice, look: DeviceLook = LOOK):
    greeting = Greeting(7, "", "", "", None, None, is_cuda_initialized=True, devices=(device,))
    return driver_facts(greeting, look, 7)[device.index]


@pytest.mark.parametrize("device", [TorchDevice(1, ""), TorchDevice(0, "", "1"), TorchDevice(0, "GPU-1")], ids=str)
def test_a_device_is_known_by_its_index_its_visible_index_or_its_uuid(device):
    assert facts(device).device_used_bytes == GIB


@pytest.mark.parametrize("index", [-1, -2, 2, 2**63, -(2**63), 2**64 - 1, 1 - 2**64])
def test_an_index_out_of_range_is_an_unknown_device(index):
    assert facts(TorchDevice(index, "")).device_used_bytes == UNKNOWN_DEVICE


def test_without_nvml_the_reason_can_end_a_sentence():
    absent = facts(TorchDevice(0, ""), DeviceLook(problem="libnvidia-ml.so.1 was not found. Install the driver."))
    assert absent.device_used_bytes == Absent("libnvidia-ml.so.1 was not found. Install the driver")


@pytest.mark.parametrize(
    ("beyond_bytes", "pids", "others_bytes"),
    [(9 * MIB, [7], 0), (500 * MIB, [7], 500 * MIB), (9 * MIB, [7, 8], 9 * MIB), (9 * MIB, [8], None)],
    ids=["the driver's", "a process that is not listed", "another process", "not listed itself"],
)
def test_a_little_more_than_the_only_process_has_is_the_drivers(beyond_bytes, pids, others_bytes):
    own_bytes = GIB - beyond_bytes
    uses = tuple(DeviceUse(GPUS[1].key, pid, "C", own_bytes if pid == 7 else MIB) for pid in pids)
    known = facts(TorchDevice(1, ""), LOOK._replace(uses=uses))
    difference = None if others_bytes is None else known.device_used_bytes - known.process_used_bytes
    assert difference == others_bytes

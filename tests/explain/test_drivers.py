"""Which physical device each of a process's PyTorch indices means."""

import pytest

from gputui.explain.drivers import UNKNOWN_DEVICE, driver_facts
from gputui.model.device import Device, DeviceLook, DeviceMemory, Driver
from gputui.model.reading import Absent
from gputui.model.target import Greeting, TorchDevice
from gputui.units import GIB

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

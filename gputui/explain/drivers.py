"""Which physical device stands behind each of a process's PyTorch indices, and what NVML says of it."""

from __future__ import annotations

from gputui.model.analysis import DriverFacts
from gputui.model.device import Device, DeviceLook
from gputui.model.reading import Absent, Reading
from gputui.model.target import Greeting, TorchDevice

UNKNOWN_DEVICE = Absent("it is not known which physical device this is")
NOT_LISTED = Absent("NVML does not list the process there (in a container it knows the host's PIDs)")


def driver_facts(greeting: Greeting, look: DeviceLook, pid: int) -> dict[int, DriverFacts]:
    """By PyTorch's index, what NVML says of each device of a process; `pid` is the PID as this side sees it."""
    return {each.index: _facts(physical_device(each, look), look, pid) for each in greeting.devices}


def physical_device(device: TorchDevice, look: DeviceLook) -> Device | None:
    """The device behind PyTorch's number: by UUID, or by the process's CUDA_VISIBLE_DEVICES where it tells no UUID."""
    name = device.uuid or device.visible_as
    if not name or name.isdecimal():
        whole = [each for each in look.devices if each.mig is None]
        place = int(name or device.index)
        is_uniform = len({each.name for each in whole}) == 1  # else CUDA numbers the fastest first
        return whole[place] if is_uniform and place < len(whole) else None
    found = [each for each in look.devices if each.uuid.startswith(name)]
    return found[0] if len(found) == 1 else None


def _facts(device: Device | None, look: DeviceLook, pid: int) -> DriverFacts:
    if device is None:
        why = Absent(look.problem) if look.problem else UNKNOWN_DEVICE
        return DriverFacts(None, why, why, why, why, why)
    memory, held, busy = device.memory, _used_by(device, look, pid), device.gpu_utilization_percent
    if isinstance(memory, Absent):
        return DriverFacts(device.index, memory, memory, held, memory, busy)
    return DriverFacts(device.index, memory.total_bytes, memory.used_bytes, held, memory.free_bytes, busy)


def _used_by(device: Device, look: DeviceLook, pid: int) -> Reading[int]:
    return next((use.used_bytes for use in look.uses if (use.device, use.pid) == (device.key, pid)), NOT_LISTED)

"""Which physical device each PyTorch index of a process means, and what NVML says about that device."""

from __future__ import annotations

from gputui.model.attached.analysis import DriverFacts, Visitor
from gputui.model.attached.target import Greeting, TorchDevice
from gputui.model.machine.device import CONTEXT_BYTES, Device, DeviceLook
from gputui.model.reading import Absent, Reading, value_of
from gputui.units import MIB

DRIVER_BYTES = 64 * MIB
"""NVML counts less than this as used beside the only process: the driver's own, 9 MB on an H200."""
UNKNOWN_DEVICE = Absent("gputui cannot tell which physical device this is")
NOT_LISTED = Absent("NVML does not list this process on the device (in a container, NVML reports the host's PIDs)")


def driver_facts(greeting: Greeting, look: DeviceLook, pid: int) -> dict[int, DriverFacts]:
    """What NVML says about each device of a process, by PyTorch's index; `pid` is the PID as the viewer sees it."""
    return {device.index: _facts(physical_device(device, look), look, pid) for device in greeting.devices}


def physical_device(device: TorchDevice, look: DeviceLook) -> Device | None:
    """The device behind a PyTorch index, by UUID, or by CUDA_VISIBLE_DEVICES where PyTorch gives no UUID; or None."""
    name = device.uuid or device.visible_as
    if not name or name.isdecimal():
        gpus = [candidate for candidate in look.devices if candidate.mig is None]
        index = int(name or device.index)
        is_uniform = len({gpu.name for gpu in gpus}) == 1  # otherwise CUDA numbers the fastest first
        return gpus[index] if is_uniform and 0 <= index < len(gpus) else None
    matches = [candidate for candidate in look.devices if candidate.uuid.startswith(name)]
    return matches[0] if len(matches) == 1 else None


def _facts(device: Device | None, look: DeviceLook, pid: int) -> DriverFacts:
    if device is None:
        absent = Absent(look.problem.removesuffix(".")) if look.problem else UNKNOWN_DEVICE
        return DriverFacts(None, absent, absent, absent, absent, absent)
    memory, used_bytes, utilization = device.memory, _used_by(device, look, pid), device.gpu_utilization_percent
    if isinstance(memory, Absent):
        return DriverFacts(device.index, memory, memory, used_bytes, memory, utilization)
    return DriverFacts(
        device.index,
        memory.total_bytes,
        _used_by_all(device, look, memory.used_bytes, used_bytes),
        used_bytes,
        memory.free_bytes,
        utilization,
        _visitors(device, look, pid),
    )


def _used_by_all(device: Device, look: DeviceLook, total_bytes: int, own: Reading[int]) -> int:
    """What all processes use: beside a process that NVML lists alone, a few MiB are the driver's, nobody else's."""
    own_bytes = value_of(own)
    is_alone = [use.device for use in look.uses].count(device.key) == 1
    is_driver = own_bytes is not None and is_alone and 0 <= total_bytes - own_bytes < DRIVER_BYTES
    return own_bytes if own_bytes is not None and is_driver else total_bytes


def _used_by(device: Device, look: DeviceLook, pid: int) -> Reading[int]:
    return next((use.used_bytes for use in look.uses if (use.device, use.pid) == (device.key, pid)), NOT_LISTED)


def _visitors(device: Device, look: DeviceLook, pid: int) -> tuple[Visitor, ...]:
    """The other processes that hold at most a CUDA context here and more on another GPU, the largest first.

    () on a MIG device, and where NVML does not list this process: in a container, its own entry has another PID.
    """
    gpus = {candidate.key for candidate in look.devices if candidate.mig is None}
    if device.key not in gpus or all(use.pid != pid for use in look.uses):
        return ()
    here: dict[int, int] = {}
    most_elsewhere: dict[int, int] = {}
    for use in look.uses:
        used_bytes = value_of(use.used_bytes)
        if used_bytes is None or use.pid in (0, pid) or use.device not in gpus:
            continue
        if use.device == device.key:
            here[use.pid] = used_bytes
        else:
            most_elsewhere[use.pid] = max(used_bytes, most_elsewhere.get(use.pid, 0))
    visitors = [
        Visitor(visitor, used_bytes, most_elsewhere[visitor])
        for visitor, used_bytes in here.items()
        if used_bytes <= CONTEXT_BYTES and used_bytes < most_elsewhere.get(visitor, 0)
    ]
    return tuple(sorted(visitors, key=lambda visitor: (-visitor.used_bytes, visitor.pid)))

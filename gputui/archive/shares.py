"""Divides the time of GPUs among their holders: between two looks a GPU is active, or held and idle, or idle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from gputui.explain.machine import thresholds
from gputui.model.machine.device import Device
from gputui.model.machine.process import Process
from gputui.model.machine.snapshot import Snapshot
from gputui.model.reading import value_of


class Holder(NamedTuple):
    """The user and the job that a report sums over; "" where one of them is not known."""

    user: str
    job: str


class Share(NamedTuple):
    """What one holder had of a device: seconds of its time, and the memory held."""

    holder: Holder
    active_s: float
    idle_held_s: float
    held_bytes: int


class Held(NamedTuple):
    """A process on a GPU. `is_active`: the GPU was, and this process computed, or NVML does not say which one did.

    `allocated_bytes` is the most that PyTorch had allocated there so far, None where no probe tells.
    """

    process: Process
    holder: Holder
    held_bytes: int
    is_active: bool
    allocated_bytes: int | None


class DeviceTime(NamedTuple):
    """A GPU between two looks; for the rest of `span_s` it was idle, or no reading says whether it was used.

    `shares` divide both parts among the holders.
    """

    device: Device
    span_s: float
    active_s: float
    idle_held_s: float
    utilization_percent: float | None
    used_bytes: int | None
    power_w: float | None
    shares: tuple[Share, ...]
    processes: tuple[Held, ...]


Allocated = Mapping[tuple[int, str], int]
"""The most that PyTorch had allocated, by PID and `Device.key`, of the programs whose probes tell."""


def device_times(
    snapshot: Snapshot, span_s: float, allocated: Allocated = MappingProxyType({})
) -> Iterator[DeviceTime]:
    """The time of each GPU that answers; MIG instances count as parts of their GPU."""
    for device in snapshot.devices.devices:
        if device.lost is None and device.mig is None:
            yield _device_time(device, snapshot, span_s, allocated)


def _device_time(device: Device, snapshot: Snapshot, span_s: float, allocated: Allocated) -> DeviceTime:
    """Active time is divided evenly among the holders that computed, or among all if NVML does not say who did."""
    instances = [other for other in snapshot.devices.devices if other.mig and other.mig.parent == device.index]
    used_percent = _used_percent((device, *instances))
    is_active = used_percent is not None and used_percent >= thresholds.USED_PERCENT
    mine = {device.key, *(instance.key for instance in instances)}
    processes = _processes(mine, snapshot, allocated, is_active=is_active)
    held: dict[Holder, int] = {}
    for each in processes:
        held[each.holder] = held.get(each.holder, 0) + each.held_bytes
    is_held = used_percent is not None and not is_active and sum(held.values()) >= thresholds.HELD_BYTES
    owners = {each.holder for each in processes if each.is_active} if is_active else set(held) if is_held else set()
    part_s = span_s / len(owners) if owners else 0.0
    memory = value_of(device.memory)
    return DeviceTime(
        device=device,
        span_s=span_s,
        active_s=span_s if is_active else 0.0,
        idle_held_s=span_s if is_held else 0.0,
        utilization_percent=value_of(device.gpu_utilization_percent),
        used_bytes=memory.used_bytes if memory else None,
        power_w=value_of(device.power_w),
        shares=tuple(
            Share(
                holder,
                part_s if is_active and holder in owners else 0.0,
                part_s if is_held else 0.0,
                held_bytes,
            )
            for holder, held_bytes in held.items()
        ),
        processes=processes,
    )


def _used_percent(parts: Iterable[Device]) -> float | None:
    """The most that a GPU or an instance of it is used, with MIG by its SMs alone; None where no reading tells."""
    readings = (reading for part in parts for reading in (part.gpu_utilization_percent, part.sm_active_percent))
    return max((percent for reading in readings if (percent := value_of(reading)) is not None), default=None)


def _processes(devices: set[str], snapshot: Snapshot, allocated: Allocated, *, is_active: bool) -> tuple[Held, ...]:
    """The processes on a GPU; `devices` are the keys of the GPU and of its MIG instances."""
    on_it = [
        (process, uses)
        for process in snapshot.processes.processes
        if (uses := [use for use in process.uses if use.device in devices])
    ]
    computing = [any(value_of(use.sm_percent) for use in uses) for _, uses in on_it]
    return tuple(
        Held(
            process,
            holder_of(process),
            sum(value_of(use.used_bytes) or 0 for use in uses),
            is_active and (computes or not any(computing)),
            max((allocated[key] for use in uses if (key := (process.pid, use.device)) in allocated), default=None),
        )
        for (process, uses), computes in zip(on_it, computing, strict=True)
    )


def holder_of(process: Process) -> Holder:
    """The user, and the job, pod, container or unit of a process."""
    owner = value_of(process.owner)
    return Holder(value_of(process.user) or "", owner.name if owner else "")

"""The attach document (schema gputui.attach/1): all of the reasoning about one look, as plain JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gputui.explain.bridge import bridge
from gputui.explain.limits import disagreement, foreign, look_problems
from gputui.explain.owners import bytes_by_category, groups, owners_of, storage_groups
from gputui.explain.release import predict_device
from gputui.model.allocator import AllocatorStatistics
from gputui.model.analysis import Bridge, Composition, DriverFacts, Owner, Release, SegmentRelease, TensorGroup
from gputui.model.moment import NO_FACTS
from gputui.model.reading import Absent, Reading, value_of
from gputui.model.target import Greeting, Look
from gputui.model.tensors import HOST, Category, Inventory


def attach_document(
    *,
    greeting: Greeting,
    look: Look,
    drivers: Mapping[int, DriverFacts],
    rss_bytes: Reading[int],
    pinned_bytes: Reading[int],
    problems: Sequence[str] = (),
) -> dict[str, Any]:
    """The document of one look; what could not be read is None, with its reason among the problems.

    `drivers` is by PyTorch's device index; `problems` are further sentences of the caller. `rss_bytes` is what the
    kernel says about the process, `pinned_bytes` what PyTorch holds page-locked.
    """
    notes = [*problems, *(problem.text for problem in look_problems(greeting, look))]
    uuids = {device.index: device.uuid for device in greeting.devices}
    host = {
        "rss_bytes": _read(rss_bytes, "Resident memory of the process", notes),
        "pinned_bytes": _read(pinned_bytes, "Pinned host memory", notes),
        "cpu_tensor_bytes": _cpu_tensor_bytes(look.inventory),
    }
    devices = [
        {"index": counted.device, "uuid": uuids.get(counted.device) or None}
        | _device(look, counted, drivers.get(counted.device, NO_FACTS), notes)
        for counted in look.statistics
    ]
    return {
        "schema": "gputui.attach/1",
        "pid": greeting.pid,
        "command": greeting.command,
        "python": greeting.python,
        "torch": greeting.torch or None,
        "rank": greeting.rank,
        "world_size": greeting.world_size,
        "host": host,
        "devices": devices,
        "cost": {"pause_ms": look.cost.pause_ms, "probe_cpu_ms": look.cost.probe_cpu_ms},
        "problems": list(dict.fromkeys(notes)),
    }


def _device(look: Look, counted: AllocatorStatistics, driver: DriverFacts, notes: list[str]) -> dict[str, Any]:
    device = counted.device
    owners = owners_of(look.map, look.inventory, device) if look.map else {}
    release = predict_device(look.map, device, owners) if look.map else None
    if release is not None:
        disagreements = disagreement(counted, release.composition)
        notes += [problem.text for problem in (*disagreements, *foreign(look, device))]
    levels = bridge(
        counted,
        process_used_bytes=driver.process_used_bytes,
        device_used_bytes=driver.device_used_bytes,
        composition=release.composition if release else None,
    )
    return {
        "nvml_index": driver.nvml_index,
        "nvml": {
            "device_total_bytes": _read(driver.device_total_bytes, f"Total memory of device {device}", notes),
            "device_used_bytes": _read(driver.device_used_bytes, f"Used memory of device {device}", notes),
            "process_used_bytes": _read(driver.process_used_bytes, f"Memory of the process on device {device}", notes),
        },
        "allocator": _allocator(look, counted, levels, release),
        "composition": _composition(release.composition) if release else None,
        "outside_torch_bytes": _read(levels.outside_torch_bytes, f"Memory outside PyTorch on device {device}", notes),
        "empty_cache": _empty_cache(release) if release else None,
        "tensors": _tensors(look, counted, owners, notes),
    }


def _allocator(look: Look, counted: AllocatorStatistics, levels: Bridge, release: Release | None) -> dict[str, Any]:
    settings = look.map.settings if look.map else look.settings
    return {
        "backend": settings.backend if settings else None,
        "settings": dict(settings.values) if settings else {},
        "requested_bytes": levels.requested_bytes,
        "allocated_bytes": counted.allocated_bytes,
        "active_bytes": counted.active_bytes,
        "reserved_bytes": counted.reserved_bytes,
        "peak_allocated_bytes": counted.peak_allocated_bytes,
        "peak_reserved_bytes": counted.peak_reserved_bytes,
        "segments": len(release.segments) if release else counted.segments,  # the counter leaves expandable ones out
        "blocks": counted.blocks,
        "num_alloc_retries": counted.num_alloc_retries,
        "num_ooms": counted.num_ooms,
    }


def _composition(parts: Composition) -> dict[str, int]:
    return {
        "requested_bytes": parts.requested_bytes,
        "rounding_bytes": parts.rounding_bytes,
        "pending_bytes": parts.pending_bytes,
        "stuck_bytes": parts.stuck_bytes,
        "private_pool_free_bytes": parts.private_pool_free_bytes,
        "releasable_bytes": parts.releasable_bytes,
    }


def _empty_cache(release: Release) -> dict[str, Any]:
    return {
        "releasable_bytes": release.releasable_bytes,
        "segments": [_segment(segment) for segment in release.segments],
    }


def _segment(segment: SegmentRelease) -> dict[str, Any]:
    return {
        "address": segment.segment.address,
        "size_bytes": segment.segment.size_bytes,
        "releasable_bytes": segment.releasable_bytes,
        "stuck_bytes": segment.stuck_bytes,
        "blockers": [
            {"address": blocker.block.address, "size_bytes": blocker.block.size_bytes, "owner": blocker.owner.name}
            for blocker in segment.blockers
        ],
    }


def _tensors(
    look: Look, counted: AllocatorStatistics, owners: Mapping[int, Owner], notes: list[str]
) -> dict[str, Any] | None:
    if look.inventory is None:
        notes.append("The tensors were not looked at.")
        return None
    if look.map is not None:
        sums = bytes_by_category(look.map, owners, counted.device)
        tensor_groups = groups(look.map, owners, counted.device)
    else:
        tensor_groups = storage_groups(look.inventory, counted.device)
        sums = {category: sum(g.bytes for g in tensor_groups if g.category is category) for category in Category}
        sums[Category.UNATTRIBUTED] += max(0, counted.allocated_bytes - sum(sums.values()))
    return {
        "by_category": {category.value: sums[category] for category in Category},
        "groups": [_group(group) for group in tensor_groups],
    }


def _group(group: TensorGroup) -> dict[str, Any]:
    return {
        "category": group.category.value,
        "type": group.type,
        "shape": list(group.shape),
        "dtype": group.dtype,
        "count": group.count,
        "bytes": group.bytes,
        "names": list(group.names),
    }


def _cpu_tensor_bytes(inventory: Inventory | None) -> int | None:
    return sum(s.size_bytes for s in inventory.storages if s.device == HOST) if inventory else None


def _read(reading: Reading[int], what: str, notes: list[str]) -> int | None:
    if isinstance(reading, Absent):
        notes.append(f"{what} is not known: {reading.reason}.")
    return value_of(reading)

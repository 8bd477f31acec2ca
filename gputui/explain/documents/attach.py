"""The attach document (schema gputui.attach/1): all conclusions from one look, as plain JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from gputui.explain.advice import findings_of
from gputui.explain.documents.serving import serving_document
from gputui.explain.failure.analysis import analysis_of
from gputui.explain.failure.sections import EXPANDABLE_REMEDY
from gputui.explain.memory.bridge import bridge
from gputui.explain.memory.collection import collection_of, why_not_known
from gputui.explain.memory.need import looked_at, need_of
from gputui.explain.owners.owners import block_bytes, bytes_by_category, bytes_by_module, grouped, storage_bytes
from gputui.explain.whatif.advice import Replayed, replayed_of, with_outcomes
from gputui.model.attached.allocator import AllocatorStatistics
from gputui.model.attached.analysis import Bridge, Finding, Release, SegmentRelease, TensorGroup
from gputui.model.attached.failure import Failure, Remedy
from gputui.model.attached.moment import DeviceMoment, TargetMoment
from gputui.model.attached.target import Look
from gputui.model.attached.tensors import HOST, Category, Inventory
from gputui.model.attached.timeline import Timeline
from gputui.model.collectives import Launched
from gputui.model.reading import Absent, Reading, value_of

NOT_LOOKED_FOR = (
    "What gc.collect() would free was not looked for: a scan (s) looks for it, and a look on request where some memory"
    " has no variable that leads to it."
)


def attach_document(
    moment: TargetMoment,
    timeline: Timeline | None = None,
    problems: Sequence[str] = (),
) -> dict[str, Any]:
    """The document of a moment's look; values that could not be read are None, with the reason among the problems.

    `timeline` is the process's, for findings about growth; `problems` are further sentences of the caller. Devices on
    which the process holds nothing are left out.
    """
    greeting, look = moment.greeting, moment.look
    notes = [*problems, *(problem.text for problem in moment.problems)]
    host = {
        "rss_bytes": _read(moment.host.rss_bytes, "Resident memory of the process", notes),
        "pinned_bytes": _read(moment.host.pinned_bytes, "Pinned host memory", notes),
        "cpu_tensor_bytes": _cpu_tensor_bytes(moment.inventory),
    }
    devices = [_device(device, moment, notes) for device in moment.held_devices]
    findings = findings_of(moment, timeline)
    replayed = replayed_of(moment, findings)
    return {
        "schema": "gputui.attach/1",
        "node": moment.node or None,
        "pid": moment.pid or None,
        "command": greeting.command,
        "python": greeting.python or None,
        "torch": greeting.torch or None,
        "rank": greeting.rank,
        "world_size": greeting.world_size,
        "serving": serving_document(moment),
        "process_groups": [_process_group(group, moment) for group in moment.groups],
        "main_thread": moment.main_thread or None,
        "host": host,
        "devices": devices,
        "findings": [_finding(device, finding) for device, finding in with_outcomes(findings, replayed)],
        "failure": _failure(moment, moment.failure, replayed[1] if replayed else None) if moment.failure else None,
        "cost": {"pause_ms": look.cost.pause_ms, "probe_cpu_ms": look.cost.probe_cpu_ms}
        if look and moment.look_cost
        else None,
        "problems": list(dict.fromkeys(notes)),
    }


def _process_group(group: Launched, moment: TargetMoment) -> dict[str, Any]:
    return {
        "name": group.name,
        "size": group.size,
        "rank": group.rank,
        "launched": group.launched,
        "unchanged_s": max(0.0, moment.time - group.since),
    }


def _failure(moment: TargetMoment, failure: Failure, replayed: Replayed | None) -> dict[str, Any]:
    analysis = analysis_of(moment)
    return {
        "time": failure.time,
        "number": failure.number,
        "device": failure.device,
        "device_name": failure.device_name or None,
        "asked_by": failure.asked_by or None,
        "requested_bytes": failure.requested_bytes or None,
        "device_free_bytes": failure.device_free_bytes,
        "device_total_bytes": failure.device_total_bytes or None,
        "allowed_bytes": failure.allowed_bytes,
        "hostname": failure.hostname or None,
        "thread": failure.thread or None,
        "message": failure.message,
        "backward_node": failure.backward_node or None,
        "is_capturing": failure.is_capturing,
        "stack": [{"file": site.file, "line": site.line, "function": site.function} for site in failure.stack],
        "phase": (analysis.phase.value or None) if analysis else None,
        "server": asdict(analysis.server) if analysis and analysis.server else None,
        "short_bytes": analysis.short_bytes if analysis and failure.requested_bytes else None,
        "largest_piece_bytes": analysis.largest_piece_bytes if analysis else None,
        "remedies": [_remedy(remedy, replayed) for remedy in (analysis.remedies if analysis else ())],
    }


def _remedy(remedy: Remedy, replayed: Replayed | None) -> dict[str, Any]:
    """A remedy; one that advises expandable segments has the result of a replay in its text."""
    is_enough, text = remedy.is_enough, remedy.text
    if replayed is not None and remedy.kind == EXPANDABLE_REMEDY:
        is_enough, text = replayed.helps, f"{text} {replayed.words}" if replayed.helps else replayed.words
    return {"kind": remedy.kind, "bytes": remedy.bytes, "is_enough": is_enough, "text": text}


def _device(device: DeviceMoment, moment: TargetMoment, notes: list[str]) -> dict[str, Any]:
    number, driver, layout, look = device.number, device.driver, device.layout, moment.look
    release = layout.release if layout else None
    counted = layout.statistics if layout else device.statistics
    levels = bridge(
        counted,
        process_used_bytes=driver.process_used_bytes,
        device_used_bytes=driver.device_used_bytes,
        composition=release.composition if release else None,
    )
    return {
        "index": device.index,
        "uuid": device.uuid or None,
        "nvml_index": driver.nvml_index,
        "nvml": {
            "device_total_bytes": _read(driver.device_total_bytes, f"Total memory of device {number}", notes),
            "device_used_bytes": _read(driver.device_used_bytes, f"Used memory of device {number}", notes),
            "process_used_bytes": _read(driver.process_used_bytes, f"Memory of the process on device {number}", notes),
        },
        "allocator": _allocator(look, counted, levels, release),
        "composition": asdict(release.composition) if release else None,
        "outside_torch_bytes": _read(levels.outside_torch_bytes, f"Memory outside PyTorch on device {number}", notes),
        "empty_cache": _empty_cache(release) if release else None,
        "gc_collect": _gc_collect(moment, device.index, notes),
        "step": _step(device),
        "tensors": _tensors(device, look, counted, notes),
    }


def _allocator(
    look: Look | None, counted: AllocatorStatistics, levels: Bridge, release: Release | None
) -> dict[str, Any]:
    settings = (look.map.settings if look.map else look.settings) if look else None
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


def _empty_cache(release: Release) -> dict[str, Any]:
    return {
        "releasable_bytes": release.releasable_bytes,
        "least_bytes": release.least_bytes,
        "most_bytes": release.most_bytes,
        "segments": [_segment(segment) for segment in release.segments],
    }


def _gc_collect(moment: TargetMoment, device: int, notes: list[str]) -> dict[str, Any] | None:
    collection = collection_of(moment.garbage, moment.look.map if moment.look else None, device)
    if collection is None:
        notes.append(why_not_known(moment.garbage) or NOT_LOOKED_FOR)
        return None
    groups = [
        {
            "count": group.cycles.count,
            "type": group.cycles.type,
            "bytes": group.bytes,
            "closed_by": group.cycles.closed_by,
        }
        for group in collection.groups
    ]
    return {"freed_bytes": collection.freed_bytes, "is_least": collection.is_least, "groups": groups}


def _step(device: DeviceMoment) -> dict[str, Any] | None:
    """Between which bytes allocated memory rises and falls, and where the look was taken; None if it hardly does."""
    need = need_of(device)
    if need is None:
        return None
    return {
        "highest_allocated_bytes": need.highest_bytes,
        "lowest_allocated_bytes": need.lowest_bytes,
        "seconds": need.step_s,
        "looked_at": looked_at(device),
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
    device: DeviceMoment, look: Look | None, counted: AllocatorStatistics, notes: list[str]
) -> dict[str, Any] | None:
    has_lines = device.layout is not None and any(owner.name for owner in device.layout.owners.values())
    if look is None or (look.inventory is None and not has_lines):
        notes.append("The tensors were not looked at.")
        return None
    if look.map is not None and device.layout is not None:
        members = list(block_bytes(look.map, device.layout.owners, device.index))
    else:
        members = list(storage_bytes(look.inventory, device.index)) if look.inventory else []
    sums = bytes_by_category(members)
    if look.map is None:  # the storages are not all of the allocated memory
        sums[Category.UNATTRIBUTED] += max(0, counted.allocated_bytes - sum(sums.values()))
    newer_bytes = sums.pop(Category.NEWER)
    sums[Category.UNATTRIBUTED] += newer_bytes
    is_searched = look.inventory is not None and look.inventory.is_searched
    return {
        "by_category": {category.value: size_bytes for category, size_bytes in sums.items()},
        "not_yet_bytes": newer_bytes if is_searched else sums[Category.UNATTRIBUTED],
        "by_module": {
            module: {category.value: size_bytes for category, size_bytes in parts.items()}
            for module, parts in bytes_by_module(members).items()
        },
        "groups": [_group(group) for group in grouped(members)],
    }


def _group(group: TensorGroup) -> dict[str, Any]:
    return {
        "category": (Category.UNATTRIBUTED if group.category is Category.NEWER else group.category).value,
        "type": group.type,
        "shape": list(group.shape),
        "dtype": group.dtype,
        "count": group.count,
        "bytes": group.bytes,
        "names": list(group.names),
        **_kept(group),
    }


def _kept(group: TensorGroup) -> dict[str, int]:
    """The bytes that views keep alive and the bytes that they show, where these differ."""
    if not group.hidden_bytes:
        return {}
    return {"kept_bytes": group.bytes, "shown_bytes": group.bytes - group.hidden_bytes}


def _finding(device: DeviceMoment, finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "weight": finding.weight.value,
        "device": device.index,
        "title": finding.title,
        "evidence": list(finding.evidence),
        "remedy": finding.remedy,
        "bytes": finding.bytes,
    }


def _cpu_tensor_bytes(inventory: Inventory | None) -> int | None:
    return sum(s.size_bytes for s in inventory.storages if s.device == HOST) if inventory else None


def _read(reading: Reading[int], what: str, notes: list[str]) -> int | None:
    if isinstance(reading, Absent):
        notes.append(f"{what} is not known: {reading.reason}.")
    return value_of(reading)

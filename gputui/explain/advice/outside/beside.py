"""Memory beside PyTorch's device memory: NCCL's, pinned host memory, and reserved memory that was unmapped."""

from __future__ import annotations

from gputui.explain.advice.situation import Situation
from gputui.explain.advice.thresholds import (
    MISSING_IN_POOLS_SHARE,
    NCCL_CACHE_BYTES,
    NCCL_FREE_BYTES,
    PINNED_ROUNDING_BYTES,
    PINNED_ROUNDING_SHARE,
)
from gputui.explain.memory.bridge import MISSING_BYTES
from gputui.explain.memory.release import DEFAULT_POOL
from gputui.explain.owners.names import counted
from gputui.model.attached.analysis import Finding
from gputui.model.attached.tensors import Storage
from gputui.model.reading import value_of
from gputui.model.weight import Weight
from gputui.units import format_bytes

NCCL_TAKES = (
    "NCCL takes its buffers from the driver, and PyTorch does not return its cache for them: a new process group or its"
    ' first collective then fails ("Failed to CUDA calloc").'
)
UNMAPPED = (
    "A memory pool with an allocator of its own can return its pages to the driver while its tensors keep their"
    " addresses, as vLLM's sleep mode and torch_memory_saver do; PyTorch's counters do not notice."
)


def nccl(situation: Situation) -> Finding | None:
    """NCCL takes its buffers from the driver, which has hardly any memory left while PyTorch's cache is large."""
    device, collectives = situation.device, situation.moment.greeting.collectives
    free, layout = value_of(device.driver.device_free_bytes), device.layout
    releasable = layout.release.releasable_bytes if layout else 0
    is_short = free is not None and free < NCCL_FREE_BYTES and releasable >= NCCL_CACHE_BYTES
    if free is None or not is_short or "nccl" not in collectives or situation.moment.ended:
        return None
    counters = device.statistics
    levels = (
        f"PyTorch has reserved {format_bytes(counters.reserved_bytes)} and allocated"
        f" {format_bytes(counters.allocated_bytes)}."
    )
    return Finding(
        weight=Weight.ADVICE,
        title=f"NCCL may find no memory: {format_bytes(free)} is free on the device, and PyTorch's cache has"
        f" {format_bytes(releasable)}.",
        evidence=(levels, NCCL_TAKES),
        remedy="Call torch.cuda.empty_cache() before a process group is made or first used, or leave room for NCCL with"
        " torch.cuda.set_per_process_memory_fraction(0.95).",
        bytes=releasable,
        screen="map",
    )


def pinned_rounding(situation: Situation) -> Finding | None:
    """PyTorch rounds pinned host memory up to powers of two."""
    moment, held = situation.moment, value_of(situation.moment.host.pinned_bytes)
    pinned = sorted((storage for storage in moment.host.storages if storage.is_pinned), key=lambda s: -_added(s))
    works_on = max(moment.devices, key=lambda device: device.statistics.allocated_bytes)
    asked, added = sum(storage.size_bytes for storage in pinned), sum(map(_added, pinned))
    is_said_here = works_on.index == situation.device.index  # host memory is no device's: only one device says it
    if not is_said_here or added < max(PINNED_ROUNDING_BYTES, PINNED_ROUNDING_SHARE * asked):
        return None
    if held is None or asked + added > held:  # pinned otherwise, or not rounded
        return None
    top = pinned[0]
    size, rounded = format_bytes(top.size_bytes), format_bytes(top.size_bytes + _added(top))
    evidence = (
        f"PyTorch rounds each pinned block up to a power of two, which adds {format_bytes(added)} to"
        f" {counted(len(pinned), 'tensor')}: {top.owner or 'the largest'} takes {rounded} for {size}."
    )
    return Finding(
        weight=Weight.ADVICE,
        title=f"Pinned host memory takes {format_bytes(asked + added)} for {format_bytes(asked)} of tensors.",
        evidence=(evidence,),
        remedy="Pin tensors whose size is just below a power of two, or pin the memory of an ordinary tensor:"
        " torch.cuda.cudart().cudaHostRegister(t.data_ptr(), t.nbytes, 0). From PyTorch 2.13 on,"
        " PYTORCH_ALLOC_CONF=pinned_max_round_threshold_mb:1 does not round.",
        bytes=added,
        is_on_host=True,
    )


def unmapped(situation: Situation) -> Finding | None:
    """PyTorch counts more memory as reserved than NVML says the process has on the device."""
    device = situation.device
    used = value_of(device.driver.process_used_bytes)
    missing = device.statistics.reserved_bytes - (used or 0)
    if used is None or device.layout is None or missing < MISSING_BYTES:
        return None
    in_pools = sum(
        segment.segment.size_bytes
        for segment in device.layout.release.segments
        if segment.segment.pool_id != DEFAULT_POOL
    )
    if in_pools < MISSING_IN_POOLS_SHARE * missing:  # else the two numbers are of different moments
        return None
    levels = (
        f"PyTorch counts {format_bytes(device.statistics.reserved_bytes)} as reserved, {format_bytes(in_pools)} of it"
        f" in private pools; NVML shows {format_bytes(used)} for this process."
    )
    return Finding(
        weight=Weight.FACT,
        title=f"{format_bytes(missing)} of the memory that PyTorch counts as reserved is not on the device.",
        evidence=(levels, UNMAPPED),
        bytes=missing,
    )


def _added(storage: Storage) -> int:
    return (1 << (storage.size_bytes - 1).bit_length()) - storage.size_bytes if storage.size_bytes > 0 else 0

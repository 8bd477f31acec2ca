"""Why NVML shows more than PyTorch, who else is on the device; pools, pending blocks and rounding."""

from __future__ import annotations

from gputui.explain.advice.outside.contexts import visited_bytes
from gputui.explain.advice.situation import Situation
from gputui.explain.advice.thresholds import (
    GAP_SHARE,
    OF_VISITORS_SHARE,
    OTHERS_SHARE,
    OUTSIDE_BYTES,
    PART_BYTES,
    ROUNDING_SHARE,
)
from gputui.explain.memory.release import DEFAULT_POOL
from gputui.explain.owners.names import listed
from gputui.model.attached.analysis import Finding
from gputui.model.reading import value_of
from gputui.model.weight import Weight
from gputui.units import format_bytes


def gap(situation: Situation) -> Finding | None:
    """NVML shows more for the process than `memory_allocated()`."""
    bridge = situation.device.bridge
    used = value_of(bridge.process_used_bytes) if bridge else None
    outside = value_of(bridge.outside_torch_bytes) if bridge else None
    if bridge is None or used is None or outside is None:
        return None
    cached = bridge.inactive_bytes + bridge.pending_bytes
    is_notable = cached >= GAP_SHARE * used and cached >= PART_BYTES
    if not is_notable and outside < OUTSIDE_BYTES:
        return None
    parts = ((cached, "in PyTorch's cache"), (outside, "outside PyTorch"))
    evidence = [f"The difference: {listed(f'{format_bytes(count)} {where}' for count, where in parts if count)}."]
    if outside >= OUTSIDE_BYTES:
        evidence.append(_outside(situation, outside))
    allocated = format_bytes(bridge.allocated_bytes)
    return Finding(
        weight=Weight.FACT,
        title=f"NVML shows {format_bytes(used)} for this process where PyTorch has {allocated} allocated.",
        evidence=tuple(evidence),
        bytes=used - bridge.allocated_bytes,
    )


def _outside(situation: Situation, outside: int) -> str:
    world_size = situation.moment.greeting.world_size or 1
    suspects = ["loaded kernels", "cuBLAS and cuDNN handles", "other CUDA libraries"]
    if world_size > 1:
        suspects.insert(0, f"NCCL buffers for {world_size} ranks")
    return (
        f"{format_bytes(outside)} outside PyTorch is more than a CUDA context alone takes: it may include"
        f" {', '.join(suspects[:-1])} and {suspects[-1]}."
    )


def others(situation: Situation) -> Finding | None:
    """Other processes hold memory of the device."""
    bridge, total = situation.device.bridge, value_of(situation.device.driver.device_total_bytes)
    used = value_of(bridge.other_processes_bytes) if bridge else None
    if bridge is None or not total or used is None or used < OTHERS_SHARE * total:
        return None
    if visited_bytes(situation) >= OF_VISITORS_SHARE * used:
        return None  # the finding `visitors` says it
    room = situation.device.room
    is_short = room is not None and used > room.after_release_bytes and not situation.moment.ended
    return Finding(
        weight=Weight.ADVICE if is_short else Weight.FACT,
        title=f"Other processes hold {format_bytes(used)} of this device.",
        evidence=(f"That is {used / total:.0%} of its {format_bytes(total)}, which this process cannot use.",),
        remedy="`gputui` lists the other processes on this device; end those that you do not need." if is_short else "",
        bytes=used,
    )


def pools(situation: Situation) -> Finding | None:
    """Memory is free in the private pools of CUDA graphs and MemPools."""
    layout = situation.device.layout
    free = layout.release.composition.private_pool_free_bytes if layout else 0
    if layout is None or free < PART_BYTES:
        return None
    private = (s for s in layout.release.segments if s.held_bytes and s.segment.pool_id != DEFAULT_POOL)
    held = sorted(private, key=lambda s: -s.held_bytes)
    holders = listed(segment.held_by for segment in held) or "their users"
    held_bytes = format_bytes(sum(segment.held_bytes for segment in held))
    would = "would have returned" if situation.moment.ended else "would return"
    return Finding(
        weight=Weight.ADVICE,
        title=f"{format_bytes(free)} is free in private pools, where no other allocation can use it.",
        evidence=(f"Kept by {holders}. Without them, empty_cache() {would} {held_bytes} more.",),
        remedy="Delete CUDA graphs and MemPools that are no longer used, or let graphs share one pool"
        " (torch.cuda.graph(..., pool=...)).",
        bytes=free,
        screen="map",
        addresses=tuple(segment.segment.address for segment in held),
    )


def pending(situation: Situation) -> Finding | None:
    """Freed blocks still wait for another stream."""
    layout = situation.device.layout
    waiting = layout.statistics.active_bytes - layout.statistics.allocated_bytes if layout else 0
    if layout is None or waiting < PART_BYTES:
        return None
    evidence = (
        f"Active memory is {format_bytes(layout.statistics.active_bytes)}, allocated"
        f" {format_bytes(layout.statistics.allocated_bytes)}: record_stream() keeps the difference until the other"
        " stream has finished its work on these tensors."
    )
    return Finding(
        weight=Weight.ADVICE,
        title=f"{format_bytes(waiting)} has been freed but still waits for another stream.",
        evidence=(evidence,),
        remedy="Instead of record_stream(), let the allocating stream wait for the other one (wait_stream()) before the"
        " tensor is freed.",
        bytes=waiting,
        screen="map",
    )


def rounding(situation: Situation) -> Finding | None:
    """Blocks are much larger than the requests."""
    layout = situation.device.layout
    if layout is None:
        return None
    added, allocated = layout.release.composition.rounding_bytes, layout.statistics.allocated_bytes
    if allocated <= 0 or added < max(PART_BYTES, ROUNDING_SHARE * allocated):  # counters may be of another moment
        return None
    settings = dict(layout.settings.values) if layout.settings else {}
    divisions = layout.settings.roundup_divisions if layout.settings else ()
    is_set = any(division > 1 for division in divisions)
    evidence = f"That is {added / allocated:.0%} of the allocated memory: blocks are larger than the tensors in them."
    if is_set:
        evidence += (
            f" The program sets how it rounds: {settings.get('PYTORCH_CUDA_ALLOC_CONF') or 'roundup_power2_divisions'}."
        )
    return Finding(
        weight=Weight.ADVICE,
        title=f"Rounding adds {format_bytes(added)} to the tensors.",
        evidence=(evidence,),
        remedy="To round less, set roundup_power2_divisions higher, or leave it out." if is_set else "",
        bytes=added,
    )

"""Checks that a map and traces of the allocator are possible at all: calculations and drawings rely on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from gputui.model.attached.allocator import AllocatorMap, AllocatorSettings, BlockState, Segment
from gputui.model.attached.target import ActionResult, Look
from gputui.model.attached.trace import OUT_OF_MEMORY, Trace
from gputui.model.reading import Problem

M = TypeVar("M", Look, ActionResult)

ROUNDUP_DIVISIONS = 16
"""PyTorch has one for each power of two from 1 MiB to 32 GiB."""


LARGEST_BYTES = 1 << 60
"""No real map or trace adds up to so much; sums of several such totals still fit into 64 bits."""
HIGHEST_ADDRESS = HIGHEST_STREAM = (1 << 64) - 1


def without_faulty_map(message: M) -> M:
    """The message; without its map if the map contradicts itself, which a look then names as a problem."""
    fault = "" if message.map is None else fault_of(message.map)
    if not fault:
        return message
    if isinstance(message, ActionResult):
        return replace(message, map=None)
    problem = Problem(f"The allocator's map is not shown, because it contradicts itself: {fault}.")
    return replace(message, map=None, problems=(*message.problems, problem))


def fault_of(layout: AllocatorMap) -> str:
    """What is impossible in a map, as words without a full stop; "" if nothing is."""
    return (
        _fault_of_settings(layout.settings)
        or _fault_of_total(sum(segment.size_bytes for segment in layout.segments))
        or next(filter(None, map(fault_of_segment, layout.segments)), "")
        or _overlap(layout)
    )


def _fault_of_settings(settings: AllocatorSettings) -> str:
    if settings.large_page_bytes <= 0:
        return f"pages of {settings.large_page_bytes} bytes"
    if len(settings.roundup_divisions) not in (0, ROUNDUP_DIVISIONS):
        return f"{len(settings.roundup_divisions)} roundup divisions instead of {ROUNDUP_DIVISIONS}"
    return ""


def fault_of_segment(segment: Segment) -> str:
    """What is impossible in one segment, as words without a full stop; "" if nothing is."""
    at = segment.address
    for block in segment.blocks:
        if block.address != at or block.size_bytes <= 0:
            return f"the blocks of the segment at {segment.address:#x} do not follow each other"
        if block.state is not BlockState.INACTIVE and not 0 <= block.requested_bytes <= block.size_bytes:
            return f"the block at {at:#x} has {block.size_bytes} bytes, of which {block.requested_bytes} were requested"
        at += block.size_bytes
    if at != segment.address + segment.size_bytes or at == segment.address or segment.address < 0:
        return f"the blocks of the segment at {segment.address:#x} do not fill it"
    if at > HIGHEST_ADDRESS or not 0 <= segment.stream <= HIGHEST_STREAM:
        return f"the segment at {segment.address:#x} is where no memory can be, or on a stream that cannot be"
    return ""


def fault_of_traces(traces: Iterable[Trace]) -> str:
    """What is impossible in traces, as words without a full stop; "" if nothing is."""
    return next(filter(None, (_fault_of_total(_total_bytes(trace)) for trace in traces)), "")


def _total_bytes(trace: Trace) -> int:
    """The sizes of all events together, without requests that failed, which may be of any size."""
    total = sum(trace.sizes_bytes)
    if total <= LARGEST_BYTES:
        return total
    return sum(size for action, size in zip(trace.actions, trace.sizes_bytes, strict=True) if action != OUT_OF_MEMORY)


def _fault_of_total(total_bytes: int) -> str:
    return "" if total_bytes <= LARGEST_BYTES else "its sizes add up to more than any machine has"


def _overlap(layout: AllocatorMap) -> str:
    places = sorted((segment.device, segment.address, segment.size_bytes) for segment in layout.segments)
    for (device, address, size_bytes), (next_device, next_address, _) in pairwise(places):
        if device == next_device and address + size_bytes > next_address:
            return f"the segments at {address:#x} and {next_address:#x} overlap"
    return ""

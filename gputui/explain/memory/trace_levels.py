"""How many bytes were reserved and requested over a trace, relative to its beginning."""

from __future__ import annotations

from dataclasses import dataclass

from gputui.model.attached.trace import (
    ALLOC,
    FREE_REQUESTED,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
    Trace,
)

GROWS = (SEGMENT_ALLOC, SEGMENT_MAP)
SHRINKS = (SEGMENT_FREE, SEGMENT_UNMAP)
"""The events after which more memory is reserved, and those after which less is."""


@dataclass(frozen=True, slots=True)
class TraceLevels:
    """Bytes at the end of a trace and at its peak, less those at its beginning.

    Live bytes are those that the program requested: a trace does not tell what rounding added.
    """

    reserved_bytes: int
    peak_reserved_bytes: int
    live_bytes: int
    peak_live_bytes: int


def levels_of(trace: Trace) -> TraceLevels:
    """The levels of a trace, from one pass over its events."""
    reserved = peak_reserved = live = peak_live = 0
    for code, size_bytes in zip(trace.actions, trace.sizes_bytes, strict=True):
        if code == ALLOC:
            live += size_bytes
            peak_live = max(peak_live, live)
        elif code == FREE_REQUESTED:
            live -= size_bytes
        elif grown := growth(code, size_bytes):
            reserved += grown
            peak_reserved = max(peak_reserved, reserved)
    return TraceLevels(reserved, peak_reserved, live, peak_live)


def growth(action: int, size_bytes: int) -> int:
    """How many bytes more are reserved after an event; below 0 if fewer are."""
    return size_bytes if action in GROWS else -size_bytes if action in SHRINKS else 0

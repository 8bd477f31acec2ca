"""How much memory was reserved and asked for over a trace, relative to its beginning."""

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
"""The events after which more is reserved, and less."""


@dataclass(frozen=True, slots=True)
class TraceLevels:
    """Bytes at the end of a trace and at the peak, more than at its beginning.

    Live memory counts what the program asked for, without rounding: a trace holds no more.
    """

    reserved_bytes: int
    peak_reserved_bytes: int
    live_bytes: int
    peak_live_bytes: int


def levels_of(trace: Trace) -> TraceLevels:
    """The levels of a trace, in one pass."""
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
    """How much more is reserved after an event of a trace."""
    return size_bytes if action in GROWS else -size_bytes if action in SHRINKS else 0

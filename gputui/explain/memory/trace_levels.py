"""How much memory was reserved and asked for over a trace, relative to its beginning."""

from __future__ import annotations

from dataclasses import dataclass

from gputui.model.attached.trace import Trace
from gputui.protocol.trace_events import ACTIONS

_CODES = {action: code for code, action in enumerate(ACTIONS)}
_ALLOC, _FREE = _CODES["alloc"], _CODES["free_requested"]
_SEGMENT_SIGNS = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_SIGNS = tuple(_SEGMENT_SIGNS.get(action, 0) for action in ACTIONS)


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
        if code == _ALLOC:
            live += size_bytes
            peak_live = max(peak_live, live)
        elif code == _FREE:
            live -= size_bytes
        elif _SIGNS[code]:
            reserved += _SIGNS[code] * size_bytes
            peak_reserved = max(peak_reserved, reserved)
    return TraceLevels(reserved, peak_reserved, live, peak_live)

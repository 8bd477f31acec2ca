"""The largest allocation that would still succeed.

A request is rounded, then served from a free block of its stream and pool, else by asking the driver for a segment
(or, with expandable segments, for the missing pages); before it fails, PyTorch releases its cache and tries again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gputui.explain.memory.release import DEFAULT_POOL, Ranges, free_runs
from gputui.explain.memory.rounding import SMALL_REQUEST_BYTES, largest_segment, largest_within
from gputui.model.attached.allocator import AllocatorMap, AllocatorSettings, Segment
from gputui.model.attached.analysis import Release, Room

DEFAULT_STREAM = 0


@dataclass(frozen=True, slots=True)
class _Moment:
    """The memory that a request finds. `released` has the released ranges by segment address, None before a release."""

    settings: AllocatorSettings
    segments: tuple[Segment, ...]
    released: Mapping[int, Ranges] | None
    free_bytes: int
    total_bytes: int


def room(layout: AllocatorMap, release: Release, *, device_free_bytes: int, device_total_bytes: int) -> Room:
    """The largest requests on the default stream and pools, if the process has no memory fraction set.

    `device_free_bytes` and `device_total_bytes` leave out what the driver reserves for itself, as cudaMemGetInfo does
    (NVML v2: free, and total - driver-reserved). The result is exact for native segments. For expandable segments it is
    a size that fits, not always the largest: a map does not show where their address range begins.
    """
    segments = tuple(s for s in layout.segments if _is_default(s, release.device))
    released = {s.segment.address: s.ranges for s in release.segments}
    free_later = device_free_bytes + release.releasable_bytes
    now = _largest(_Moment(layout.settings, segments, None, device_free_bytes, device_total_bytes))
    later = max(now, _largest(_Moment(layout.settings, segments, released, free_later, device_total_bytes)))
    return Room(release.device, now, later)


def _is_default(segment: Segment, device: int) -> bool:
    return (segment.device, segment.stream, segment.pool_id) == (device, DEFAULT_STREAM, DEFAULT_POOL)


def _largest(moment: _Moment) -> int:
    """The largest request that a free piece or the driver can serve."""
    pieces = [(s.is_small, end - start) for s in moment.segments for start, end in _free_pieces(moment, s)]
    served = [
        min(size, SMALL_REQUEST_BYTES) if is_small else size
        for is_small, size in pieces
        if is_small or size > SMALL_REQUEST_BYTES
    ]
    served.append(_growth(moment) if moment.settings.is_expandable else largest_segment(moment.free_bytes))
    return max(largest_within(moment.settings, size) for size in served)


def _free_pieces(moment: _Moment, segment: Segment) -> list[tuple[int, int]]:
    """(first, end) of each free piece of a segment. Before a release, a block that waits for a stream is not free."""
    pieces = []
    gone = (moment.released or {}).get(segment.address, ())
    for start, end in free_runs(segment, is_waiting_free=moment.released is not None):
        at = start
        for first, last in gone:
            if start <= first < end:
                pieces.append((at, first))
                at = last
        pieces.append((at, end))
    return [piece for piece in pieces if piece[1] > piece[0]]


def _growth(moment: _Moment) -> int:
    """The largest request that new pages can serve, after the last live block or in a new address range.

    A range is 9/8 of the device's memory long. It is assumed to start at the lowest segment.
    """
    page = moment.settings.large_page_bytes
    pages_bytes = moment.free_bytes // page * page
    large = sorted((s for s in moment.segments if s.is_expandable and not s.is_small), key=lambda s: s.address)
    if not large:
        return pages_bytes
    start, free_bytes = _last_run(moment, large)
    range_end = large[0].address + -(-moment.total_bytes * 9 // 8 // page) * page
    return max(pages_bytes, min(free_bytes + pages_bytes, range_end - start))


def _last_run(moment: _Moment, segments: list[Segment]) -> tuple[int, int]:
    """The address where the last live block ends, and how many mapped bytes behind it are free."""
    start, free_bytes = 0, 0
    for segment in reversed(segments):
        end = segment.address + segment.size_bytes
        runs = free_runs(segment, is_waiting_free=moment.released is not None)
        start = runs[-1][0] if runs and runs[-1][1] == end else end
        free_bytes += sum(last - first for first, last in _free_pieces(moment, segment) if first >= start)
        if start > segment.address:
            break
    return start, free_bytes

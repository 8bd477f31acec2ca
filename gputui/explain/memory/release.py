"""Predicts what `empty_cache()` returns to the driver, to the byte, and says what keeps the rest.

The rules: a native segment is released when no block in it is alive; of an expandable segment, the pages that lie
wholly in a free run are; a private pool only when nobody uses it. During a capture on a device, its default pools stay,
and blocks that wait for another stream go on waiting. Where a pool may or may not be in use, the answer is a range.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from gputui.explain.owners.owners import UNATTRIBUTED
from gputui.model.attached.allocator import AllocatorMap, Block, BlockState, Segment
from gputui.model.attached.analysis import Blocker, Composition, Owner, Release, SegmentRelease
from gputui.units import format_bytes

SMALL_PAGE_BYTES = 2 * 1024**2
DEFAULT_POOL = (0, 0)

Ranges = tuple[tuple[int, int], ...]


def predict(layout: AllocatorMap, owners: Mapping[int, Owner] | None = None) -> tuple[Release, ...]:
    """What `empty_cache()` does on each device with segments; `owners` (by block address) names the blockers."""
    devices = sorted({segment.device for segment in layout.segments})
    return tuple(predict_device(layout, device, owners) for device in devices)


def predict_device(layout: AllocatorMap, device: int, owners: Mapping[int, Owner] | None = None) -> Release:
    """What `empty_cache()` does on one device; an empty `Release` where the device has no segments."""
    segments = [segment for segment in layout.segments if segment.device == device]
    releases = tuple(_segment_release(layout, segment, owners or {}) for segment in segments)
    return Release(device, releases, _compose(releases), *_range(layout, device, releases))


def forecast(release: Release) -> str:
    """What `empty_cache()` returns, in words: "1.2 GiB", "1.0 GiB to 1.2 GiB" or "up to 1.2 GiB"."""
    least, most = format_bytes(release.least_bytes), format_bytes(release.most_bytes)
    if release.least_bytes == release.most_bytes:
        return most
    return f"{least} to {most}" if release.least_bytes else f"up to {most}"


def release_ranges(segment: Segment, page_bytes: int, *, is_waiting_free: bool = True) -> Ranges:
    """The (first, end) addresses of what would be released of a segment if nothing kept its pool.

    `is_waiting_free`: count blocks that wait for another stream as free, as `empty_cache()` does outside captures.
    """
    runs = free_runs(segment, is_waiting_free=is_waiting_free)
    if not segment.is_expandable:
        return tuple(run for run in runs if run[1] - run[0] == segment.size_bytes)
    pages = (_whole_pages(segment.address, start, end, page_bytes) for start, end in runs)
    return tuple((first, end) for first, end in pages if end > first)


def free_runs(segment: Segment, *, is_waiting_free: bool) -> list[tuple[int, int]]:
    """Maximal runs of neighbouring free blocks, as (first, end) addresses."""
    runs: list[tuple[int, int]] = []
    for block in segment.blocks:
        if not _is_free(block, is_waiting_free=is_waiting_free):
            continue
        end = block.address + block.size_bytes
        if runs and runs[-1][1] == block.address:
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((block.address, end))
    return runs


def page_bytes(layout: AllocatorMap, segment: Segment) -> int:
    """The size of the pages in which an expandable segment grows and shrinks, in bytes."""
    return SMALL_PAGE_BYTES if segment.is_small else layout.settings.large_page_bytes


def _segment_release(layout: AllocatorMap, segment: Segment, owners: Mapping[int, Owner]) -> SegmentRelease:
    is_routed = segment.device in layout.routed_devices
    page = page_bytes(layout, segment)
    possible = release_ranges(segment, page, is_waiting_free=not is_routed)
    held_by = _held_by(layout, segment)
    ranges = () if held_by else possible
    releasable = _total(ranges)
    live = [block for block in segment.blocks if block.state is BlockState.ACTIVE_ALLOCATED]
    inactive = sum(block.size_bytes for block in segment.blocks if block.state is BlockState.INACTIVE)
    blockers = tuple(
        Blocker(block, owners.get(block.address, UNATTRIBUTED), 0 if held_by else gain)
        for block, gain in zip(live, _gains(segment, page, is_waiting_free=not is_routed), strict=True)
    )
    is_held_pool = held_by and segment.pool_id != DEFAULT_POOL
    return SegmentRelease(
        segment=segment,
        releasable_bytes=releasable,
        stuck_bytes=0 if is_held_pool else inactive - _inactive_in(segment, ranges),
        blockers=blockers,
        ranges=ranges,
        held_bytes=_total(possible) - releasable,
        held_by=held_by,
    )


def _range(layout: AllocatorMap, device: int, releases: tuple[SegmentRelease, ...]) -> tuple[int, int]:
    """The least and the most bytes that `empty_cache()` can return."""
    unsure = {pool.pool_id for pool in layout.private_pools if pool.device == device and not pool.is_sure}
    likely = sum(release.releasable_bytes for release in releases)
    doubted = [release for release in releases if release.segment.pool_id in unsure]
    least = 0 if device in layout.unsure_devices else likely - sum(release.releasable_bytes for release in doubted)
    return least, likely + sum(release.held_bytes for release in doubted)


def _held_by(layout: AllocatorMap, segment: Segment) -> str:
    """What keeps `empty_cache()` away from the whole pool of a segment; "" if nothing does."""
    if segment.pool_id == DEFAULT_POOL:
        return "a capture" if segment.device in layout.routed_devices else ""
    for pool in layout.private_pools:
        if (pool.device, pool.pool_id) == (segment.device, segment.pool_id):
            return "" if pool.is_freeable else pool.holder or "an unknown user"
    return "an unknown user"


def _is_free(block: Block, *, is_waiting_free: bool) -> bool:
    waiting = block.state is BlockState.ACTIVE_PENDING_FREE
    return block.state is BlockState.INACTIVE or (waiting and is_waiting_free)


def _whole_pages(origin: int, start: int, end: int, page: int) -> tuple[int, int]:
    """The part of [start, end) that consists of whole pages, counted from `origin`; (first, first) if there is none."""
    first = origin + -(-(start - origin) // page) * page
    last = origin + (end - origin) // page * page
    return first, max(first, last)


def _gains(segment: Segment, page: int, *, is_waiting_free: bool) -> list[int]:
    """For each live block, in order: how many more bytes a release would return if this block alone were freed."""
    live = [i for i, block in enumerate(segment.blocks) if block.state is BlockState.ACTIVE_ALLOCATED]
    if not segment.is_expandable:
        others = sum(not _is_free(block, is_waiting_free=is_waiting_free) for block in segment.blocks)
        return [segment.size_bytes if others == 1 else 0 for _ in live]
    runs = free_runs(segment, is_waiting_free=is_waiting_free)
    starts = {start: (start, end) for start, end in runs}
    ends = {end: (start, end) for start, end in runs}
    gains = []
    for block in (segment.blocks[i] for i in live):
        before = ends.get(block.address, (block.address, block.address))
        after = starts.get(block.address + block.size_bytes, (block.address + block.size_bytes,) * 2)
        first, last = _whole_pages(segment.address, before[0], after[1], page)
        gains.append(last - first - _pages_bytes(segment, page, before) - _pages_bytes(segment, page, after))
    return gains


def _pages_bytes(segment: Segment, page: int, run: tuple[int, int]) -> int:
    first, last = _whole_pages(segment.address, *run, page)
    return last - first


def _inactive_in(segment: Segment, ranges: Ranges) -> int:
    """Bytes of inactive blocks inside the ranges; a block overlaps at most one range, that of its free run."""
    ends = [end for _, end in ranges]
    total = 0
    for block in segment.blocks:
        i = bisect_right(ends, block.address)
        if block.state is BlockState.INACTIVE and i < len(ranges):
            start, end = ranges[i]
            total += max(0, min(end, block.address + block.size_bytes) - max(start, block.address))
    return total


def _total(ranges: Ranges) -> int:
    return sum(end - start for start, end in ranges)


def _compose(releases: tuple[SegmentRelease, ...]) -> Composition:
    requested = rounding = pending = stuck = in_pools = releasable = 0
    for release in releases:
        blocks = release.segment.blocks
        live = [block for block in blocks if block.state is BlockState.ACTIVE_ALLOCATED]
        inactive = sum(block.size_bytes for block in blocks if block.state is BlockState.INACTIVE)
        gone_inactive = _inactive_in(release.segment, release.ranges)
        waiting = sum(block.size_bytes for block in blocks if block.state is BlockState.ACTIVE_PENDING_FREE)
        requested += sum(block.requested_bytes for block in live)
        rounding += sum(block.size_bytes - block.requested_bytes for block in live)
        releasable += release.releasable_bytes
        pending += waiting - (release.releasable_bytes - gone_inactive)
        stuck += release.stuck_bytes
        in_pools += inactive - gone_inactive - release.stuck_bytes
    return Composition(requested, rounding, pending, stuck, in_pools, releasable)

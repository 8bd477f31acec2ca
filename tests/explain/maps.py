"""Hand-made allocator maps: blocks as (state, MiB) pairs."""

from __future__ import annotations

from gputui.model.attached.allocator import (
    AllocatorMap,
    AllocatorSettings,
    AllocatorStatistics,
    Block,
    BlockState,
    PrivatePool,
    Segment,
)
from gputui.units import MIB

STATES = {"live": BlockState.ACTIVE_ALLOCATED, "free": BlockState.INACTIVE, "waits": BlockState.ACTIVE_PENDING_FREE}
BASE = 0x7F0000000000


def segment(
    *blocks: tuple[str, float],
    address: int = BASE,
    device: int = 0,
    stream: int = 0,
    is_small: bool = False,
    is_expandable: bool = False,
    pool_id: tuple[int, int] = (0, 0),
    slack: int = 0,
) -> Segment:
    """A segment of these blocks; the requested size of each live one is `slack` bytes below its block size."""
    made, at = [], address
    for state, mib in blocks:
        size = int(mib * MIB)
        made.append(Block(at, size, size - slack, STATES[state]))
        at += size
    return Segment(device, address, at - address, stream, is_small, is_expandable, pool_id, tuple(made))


def pool(pool_id: tuple[int, int], holder: str, device: int = 0, *, is_sure: bool = True) -> PrivatePool:
    return PrivatePool(device, pool_id, not holder, holder, is_sure)


def settings(**changes: object) -> AllocatorSettings:
    usual = {"backend": "native", "large_page_bytes": 20 * MIB, "max_split_bytes": None, "is_expandable": False}
    return AllocatorSettings(**usual | {"values": ()} | changes)


def layout(
    *segments: Segment, pools=(), routed=(), page: int = 20 * MIB, problems=(), unsure=(), **changes
) -> AllocatorMap:
    how = settings(large_page_bytes=page, **changes)
    return AllocatorMap(segments, tuple(pools), tuple(routed), how, tuple(problems), tuple(unsure))


def statistics(made: AllocatorMap, device: int = 0, **changes: int) -> AllocatorStatistics:
    """The counters that match a map."""
    segments = [s for s in made.segments if s.device == device]
    blocks = [b for s in segments for b in s.blocks if b.state is not BlockState.INACTIVE]
    live = sum(b.size_bytes for b in blocks if b.state is BlockState.ACTIVE_ALLOCATED)
    counts = {
        "requested_bytes": sum(b.requested_bytes for b in blocks),
        "allocated_bytes": live,
        "active_bytes": sum(b.size_bytes for b in blocks),
        "reserved_bytes": sum(s.size_bytes for s in segments),
        "inactive_split_bytes": 0,
        "peak_allocated_bytes": live,
        "peak_active_bytes": live,
        "peak_reserved_bytes": sum(s.size_bytes for s in segments),
        "segments": len(segments),
        "blocks": len(blocks),
    }
    rest = dict.fromkeys(("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free", "generation"), 0)
    return AllocatorStatistics(device=device, **counts | rest | changes)

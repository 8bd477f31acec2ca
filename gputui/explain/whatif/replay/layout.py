"""The allocator's segments and blocks before the first event of a trace, reconstructed from the map at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gputui.explain.memory.release import SMALL_PAGE_BYTES
from gputui.explain.memory.rounding import SMALL_REQUEST_BYTES, SMALL_SEGMENT_BYTES, rounded_bytes
from gputui.explain.whatif.allocator.blocks import DEFAULT_POOL, Block, Pool, PoolId, Range
from gputui.explain.whatif.allocator.device import Allocator
from gputui.explain.whatif.trace.operations import Operations
from gputui.model.attached.allocator import AllocatorSettings, Segment
from gputui.model.attached.trace import SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP, Trace

Live = tuple[int, int, int]
"""A block in use: address, size in bytes, number of the allocation."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A segment, or a mapped stretch of an expandable one, with its live blocks in the order of addresses."""

    address: int
    size_bytes: int
    stream: int
    is_small: bool
    is_expandable: bool
    pool_id: PoolId
    live: tuple[Live, ...]


@dataclass(frozen=True, slots=True)
class StartLayout:
    """Everything that was reserved before the first event of a trace."""

    stretches: tuple[Stretch, ...]

    def adopt(self, allocator: Allocator) -> dict[int, Block]:
        """Build the layout in an empty allocator; returns its live blocks by the number of their allocation."""
        blocks: dict[int, Block] = {}
        for stretch in self.stretches:
            pool = allocator.pool(stretch.pool_id, is_small=stretch.is_small)
            blocks.update(_adopt(allocator, pool, stretch))
        allocator.peak_reserved_bytes = allocator.reserved_bytes
        allocator.peak_allocated_bytes = allocator.allocated_bytes
        return blocks


def layout_before(
    trace: Trace, segments: Sequence[Segment], operations: Operations, settings: AllocatorSettings
) -> StartLayout:
    """The layout before the first event; `settings` are those under which the trace was recorded."""
    stretches = _stretches_before(trace, segments)
    earlier = iter(range(operations.earlier))  # in the order of addresses
    number = next(earlier, None)
    made = []
    for address in sorted(stretches):
        size, stream, is_small, is_expandable, pool_id = stretches[address]
        live: list[Live] = []
        while number is not None and operations.addresses[number] < address + size:
            if operations.addresses[number] >= address:
                rounded = rounded_bytes(settings, operations.sizes_bytes[number])
                live.append((operations.addresses[number], rounded, number))
            number = next(earlier, None)
        filled = _with_slack(live, address + size, is_small=is_small, is_expandable=is_expandable)
        made.append(Stretch(address, size, stream, is_small, is_expandable, pool_id, filled))
    return StartLayout(tuple(made))


def _with_slack(live: list[Live], end: int, *, is_small: bool, is_expandable: bool) -> tuple[Live, ...]:
    """The live blocks, each with the gap behind it where PyTorch does not split off one so small."""
    if is_small or is_expandable:
        return tuple(live)
    filled = []
    for place, (address, size, number) in enumerate(live):
        following = live[place + 1][0] if place + 1 < len(live) else end
        gap = following - address - size
        filled.append((address, size + gap if gap <= SMALL_REQUEST_BYTES else size, number))
    return tuple(filled)


_Found = tuple[int, int, bool, bool, PoolId]


def _stretches_before(trace: Trace, segments: Sequence[Segment]) -> dict[int, _Found]:
    """By address: size, stream, is_small, is_expandable, pool id. The map, with the segment events undone backward."""
    found: dict[int, _Found] = {
        s.address: (s.size_bytes, s.stream, s.is_small, s.is_expandable, s.pool_id) for s in segments
    }
    for index in range(len(trace) - 1, -1, -1):
        action, address, size = trace.actions[index], trace.addresses[index], trace.sizes_bytes[index]
        if action == SEGMENT_ALLOC:
            found.pop(address, None)
        elif action == SEGMENT_FREE:
            found[address] = (size, trace.streams[index], size == SMALL_SEGMENT_BYTES, False, DEFAULT_POOL)
        elif action == SEGMENT_MAP:
            _cut(found, address, size)
        elif action == SEGMENT_UNMAP:
            _add(found, address, size, trace.streams[index])
    return found


def _cut(found: dict[int, _Found], address: int, size: int) -> None:
    """Take [address, address + size) out of the expandable stretch that holds it."""
    start = next((a for a, kind in found.items() if kind[3] and a <= address < a + kind[0]), None)
    if start is None:
        return
    old, stream, is_small, is_expandable, pool_id = found.pop(start)
    for first, end in ((start, address), (address + size, start + old)):
        if end > first:
            found[first] = (end - first, stream, is_small, is_expandable, pool_id)


def _add(found: dict[int, _Found], address: int, size: int, stream: int) -> None:
    """Add an expandable stretch, joined with its neighbours; without one, its size tells which pool it is of."""
    end = address + size
    is_small, pool_id = size % (10 * SMALL_PAGE_BYTES) != 0, DEFAULT_POOL
    for start, kind in list(found.items()):
        if kind[3] and (start + kind[0] == address or start == end) and kind[1] == stream:
            del found[start]
            address, end = min(address, start), max(end, start + kind[0])
            is_small, pool_id = kind[2], kind[4]
    found[address] = (end - address, stream, is_small, True, pool_id)


def _adopt(allocator: Allocator, pool: Pool, stretch: Stretch) -> dict[int, Block]:
    page = SMALL_PAGE_BYTES if pool.is_small else allocator.settings.large_page_bytes
    range_ = Range(stretch.address, page) if stretch.is_expandable else None
    blocks: dict[int, Block] = {}
    last: Block | None = None
    segment = allocator.next_segment()
    position, end = stretch.address, stretch.address + stretch.size_bytes
    for address, size, number in (*stretch.live, (end, 0, -1)):
        if address > position:
            last = _append(last, Block(position, address - position, stretch.stream, pool, range_, segment))
            pool.insert(last)
        if number >= 0:
            last = _append(last, Block(address, size, stretch.stream, pool, range_, segment))
            last.is_allocated = True
            allocator.allocated_bytes += size
            blocks[number] = last
        position = address + size
    if range_ is not None:
        tail = _append(last, Block(end, 1 << 40, stretch.stream, pool, range_, segment))
        tail.is_mapped = False
        pool.insert_unmapped(tail)
    allocator.reserve(stretch.size_bytes)
    allocator.addresses.occupy(stretch.address, stretch.size_bytes)
    return blocks


def _append(last: Block | None, block: Block) -> Block:
    block.link(last, None)
    return block

"""Expandable segments in the modelled allocator: ranges of addresses whose pages are mapped when they are needed."""

from __future__ import annotations

from typing import Protocol

from gputui.explain.memory.release import SMALL_PAGE_BYTES
from gputui.explain.whatif.allocator.blocks import Addresses, Block, Pool, Range
from gputui.model.attached.allocator import AllocatorSettings

ASSUMED_DEVICE_BYTES = 1 << 40
"""The device's size where it is not known; only the length of an address range depends on this."""


class Reserves(Protocol):
    """The part of `Allocator` that `ExpandableSegments` calls."""

    settings: AllocatorSettings
    addresses: Addresses

    def can_reserve(self, size: int) -> bool:
        """Whether the driver has `size` bytes left."""
        ...

    def next_segment(self) -> int:
        """The number of a new segment."""
        ...

    def reserve(self, size: int) -> None:
        """Count bytes that came from the driver, or that went back to it if `size` is negative."""
        ...


class ExpandableSegments:
    """Maps and unmaps pages. A range of addresses is 1.125 times as long as the device's memory, `total_bytes`."""

    def __init__(self, allocator: Reserves, total_bytes: int | None) -> None:
        self._allocator = allocator
        self._total_bytes = total_bytes or ASSUMED_DEVICE_BYTES

    def grow(self, pool: Pool, stream: int, size: int) -> Block | None:
        """A mapped free block of at least `size`, taken out of the pool; None where memory runs out."""
        block = self._start(pool, stream, size)
        if not block.is_mapped and not self._map(block, min(block.size, size)):
            return None
        while block.size < size:
            following = block.next
            if following is None or not self._map(following, min(size - block.size, following.size)):
                return None
            block = following
        pool.remove(block)
        return block

    def unmap(self, block: Block) -> None:
        """Return the pages that lie wholly in a free block."""
        first, end = self.whole_pages(block)
        if end == first:
            return
        pool = block.pool
        pool.remove(block)
        for address, size in ((block.address, first - block.address), (end, block.address + block.size - end)):
            if size > 0:
                part = Block(address, size, block.stream, pool, block.range, block.segment)
                part.link(*((block.previous, block) if address < first else (block, block.next)))
                pool.insert(part)
        block.address, block.size, block.is_mapped = first, end - first, False
        pool.merge(block, block.previous)
        pool.merge(block, block.next)
        pool.insert_unmapped(block)
        self._allocator.reserve(first - end)
        if not block.is_split:
            pool.remove(block)  # nothing of the range is mapped: PyTorch drops it
            self._allocator.addresses.release(first)

    @staticmethod
    def whole_pages(block: Block) -> tuple[int, int]:
        """The first and the end address of the pages that lie wholly in the block."""
        if block.range is None:
            return block.address, block.address
        origin, page = block.range.address, block.range.page_bytes
        first = origin + -(-(block.address - origin) // page) * page
        end = origin + (block.address + block.size - origin) // page * page
        return first, max(first, end)

    def _start(self, pool: Pool, stream: int, size: int) -> Block:
        """The first of neighbouring free and unmapped blocks that add up to `size`; if none do, that of a new range."""
        for _, _, block in pool.unmapped.get(stream, ()):
            previous = block.previous
            start = previous if previous is not None and previous.is_available else block
            if _has_space(start, size):
                return start
        page = SMALL_PAGE_BYTES if pool.is_small else self._allocator.settings.large_page_bytes
        length = -(-(self._total_bytes + self._total_bytes // 8) // page) * page
        new = Range(self._allocator.addresses.take(length), page)
        block = Block(new.address, length, stream, pool, new, self._allocator.next_segment())
        block.is_mapped = False
        pool.insert_unmapped(block)
        return block

    def _map(self, block: Block, size: int) -> bool:
        """Map the pages that the first `size` bytes of an unmapped block need, and merge it with free neighbours."""
        page = block.range.page_bytes if block.range is not None else 1
        mapped = -(-size // page) * page
        if not self._allocator.can_reserve(mapped):
            return False
        pool = block.pool
        pool.remove(block)
        block.is_mapped = True
        if mapped < block.size:
            rest = Block(block.address + mapped, block.size - mapped, block.stream, pool, block.range, block.segment)
            rest.is_mapped = False
            rest.link(block, block.next)
            pool.insert_unmapped(rest)
            block.size = mapped
        pool.merge(block, block.previous)
        pool.merge(block, block.next)
        pool.insert(block)
        self._allocator.reserve(mapped)
        return True


def _has_space(block: Block | None, size: int) -> bool:
    total = 0
    while total < size and block is not None and block.is_available:
        total += block.size
        block = block.next
    return total >= size

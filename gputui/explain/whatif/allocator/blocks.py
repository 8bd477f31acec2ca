"""Blocks, pools and addresses of the modelled allocator, ordered as in PyTorch's `CUDACachingAllocator.cpp`."""

from __future__ import annotations

from bisect import bisect_left, insort

PoolId = tuple[int, int]
DEFAULT_POOL: PoolId = (0, 0)


class Range:
    """The address range of an expandable segment: its first address, and the size of its pages."""

    __slots__ = ("address", "page_bytes")

    def __init__(self, address: int, page_bytes: int) -> None:
        self.address = address
        self.page_bytes = page_bytes


class Block:
    """A piece of a segment; `previous` and `next` are its neighbours in the segment.

    `range` is None in a native segment. `segment` numbers the segments in the order in which they came. `is_waiting`:
    freed, but used by another stream. `born_at` is the pool's count of searches when the block became free, from which
    garbage collection tells its age.
    """

    __slots__ = ("address", "born_at", "is_allocated", "is_mapped", "is_waiting", "next", "pool", "previous", "range",
                 "segment", "size", "stream")  # fmt: skip

    def __init__(
        self, address: int, size: int, stream: int, pool: Pool, range_: Range | None = None, segment: int = 0
    ) -> None:
        self.address = address
        self.segment = segment
        self.size = size
        self.stream = stream
        self.pool = pool
        self.range = range_
        self.previous: Block | None = None
        self.next: Block | None = None
        self.is_allocated = False
        self.is_waiting = False
        self.is_mapped = True
        self.born_at = 0

    @property
    def is_split(self) -> bool:
        """Whether it is a part of its segment only."""
        return self.previous is not None or self.next is not None

    @property
    def is_available(self) -> bool:
        """Whether it can be handed out or merged."""
        return not self.is_allocated and not self.is_waiting

    @property
    def growable_bytes(self) -> int:
        """Its size with the unmapped space right behind it."""
        following = self.next
        return self.size + (following.size if following is not None and not following.is_mapped else 0)

    def link(self, previous: Block | None, following: Block | None) -> None:
        """Put the block between two neighbours."""
        self.previous, self.next = previous, following
        if previous is not None:
            previous.next = self
        if following is not None:
            following.previous = self


FreeEntry = tuple[int, int, int, Block]
UnmappedEntry = tuple[int, int, Block]


class Pool:
    """Free and unmapped blocks of one pool, for each stream.

    Free ones are ordered by size, the age of their segment if `prefers_older`, and address; unmapped ones by address.
    """

    __slots__ = ("free", "is_small", "pool_id", "prefers_older", "searches", "unmapped")

    def __init__(self, *, is_small: bool, pool_id: PoolId = DEFAULT_POOL, prefers_older: bool = False) -> None:
        self.prefers_older = prefers_older
        self.is_small = is_small
        self.pool_id = pool_id
        self.searches = 0
        self.free: dict[int, list[FreeEntry]] = {}
        self.unmapped: dict[int, list[UnmappedEntry]] = {}

    def insert(self, block: Block) -> None:
        """Add a free block."""
        block.born_at = self.searches
        rank = block.segment if self.prefers_older else 0
        insort(self.free.setdefault(block.stream, []), (block.size, rank, block.address, block))

    def remove(self, block: Block) -> None:
        """Take a free or an unmapped block out, wherever it is."""
        if block.is_mapped:
            free = self.free[block.stream]
            rank = block.segment if self.prefers_older else 0
            index = bisect_left(free, (block.size, rank, block.address))
            if index < len(free) and free[index][3] is block:
                del free[index]
            return
        unmapped = self.unmapped[block.stream]
        index = bisect_left(unmapped, (block.address, block.size))
        if index < len(unmapped) and unmapped[index][2] is block:
            del unmapped[index]

    def insert_unmapped(self, block: Block) -> None:
        """Add a block without memory behind it."""
        insort(self.unmapped.setdefault(block.stream, []), (block.address, block.size, block))

    def free_blocks(self) -> list[Block]:
        """All free blocks, in PyTorch's order."""
        return [entry[3] for stream in sorted(self.free) for entry in self.free[stream]]

    def merge(self, block: Block, neighbour: Block | None) -> None:
        """Let `block`, which is in no set, take in a neighbour that is in the same state."""
        if neighbour is None or not neighbour.is_available or neighbour.is_mapped != block.is_mapped:
            return
        self.remove(neighbour)
        if neighbour is block.previous:
            block.address = neighbour.address
            block.previous = neighbour.previous
            if block.previous is not None:
                block.previous.next = block
        else:
            block.next = neighbour.next
            if block.next is not None:
                block.next.previous = block
        block.size += neighbour.size


GRAIN_BYTES = 2 << 20
FIRST_ADDRESS = 1 << 40


class Addresses:
    """The driver's ranges in use, by address: a new segment gets the lowest gap that is large enough.

    PyTorch prefers the lower of two equal free blocks, so where they lie matters.
    """

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []
        self._first = FIRST_ADDRESS

    def take(self, size: int) -> int:
        """The first address of a new range."""
        size = -(-size // GRAIN_BYTES) * GRAIN_BYTES
        address = self._first
        for start, end in self._ranges:
            if start - address >= size:
                break
            address = max(address, end)
        insort(self._ranges, (address, address + size))
        return address

    def occupy(self, address: int, size: int) -> None:
        """Mark a range as in use; new ones are looked for from the lowest of these on."""
        self._first = address if not self._ranges else min(address, self._first)
        insort(self._ranges, (address, address + size))

    def release(self, address: int) -> None:
        """Give a range back."""
        place = bisect_left(self._ranges, (address,))
        if place < len(self._ranges) and self._ranges[place][0] == address:
            del self._ranges[place]

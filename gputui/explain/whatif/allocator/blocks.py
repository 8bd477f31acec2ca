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

    `range` is None in a segment of one cudaMalloc ("native"). `segment` numbers segments by age. `is_waiting`: freed,
    but another stream still uses it. `born_at`: `Pool.searches` when it became free; garbage collection needs its age.
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
        """Whether the block is only a part of its segment."""
        return self.previous is not None or self.next is not None

    @property
    def is_available(self) -> bool:
        """Whether the block can be handed out or merged."""
        return not self.is_allocated and not self.is_waiting

    @property
    def growable_bytes(self) -> int:
        """The block's size with the unmapped space right behind it."""
        following = self.next
        return self.size + (following.size if following is not None and not following.is_mapped else 0)

    def link(self, previous: Block | None, following: Block | None) -> None:
        """Insert the block between two neighbours."""
        self.previous, self.next = previous, following
        if previous is not None:
            previous.next = self
        if following is not None:
            following.previous = self


FreeEntry = tuple[int, int, int, Block]
UnmappedEntry = tuple[int, int, Block]


class Pool:
    """The free and the unmapped blocks of one pool, by stream.

    Free blocks are ordered by size, age of their segment if `prefers_older`, and address; unmapped ones by address.
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
        """Take a block out of the free or the unmapped blocks; nothing happens if it is in neither."""
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
        """Add an unmapped block."""
        insort(self.unmapped.setdefault(block.stream, []), (block.address, block.size, block))

    def free_blocks(self) -> list[Block]:
        """All free blocks, in PyTorch's order."""
        return [entry[3] for stream in sorted(self.free) for entry in self.free[stream]]

    def merge(self, block: Block, neighbour: Block | None) -> None:
        """Grow `block`, which must be in no list, by a neighbour that is available and mapped or unmapped as it is."""
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
    """The driver's address ranges in use: a new segment gets the lowest gap that is large enough.

    Addresses matter because PyTorch takes the lower one of two free blocks of one size.
    """

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []
        self._first = FIRST_ADDRESS

    def take(self, size: int) -> int:
        """Mark a new range as in use; returns its first address."""
        size = -(-size // GRAIN_BYTES) * GRAIN_BYTES
        address = self._first
        for start, end in self._ranges:
            if start - address >= size:
                break
            address = max(address, end)
        insort(self._ranges, (address, address + size))
        return address

    def occupy(self, address: int, size: int) -> None:
        """Mark a given range as in use; `take` searches from the lowest of these ranges on."""
        self._first = address if not self._ranges else min(address, self._first)
        insort(self._ranges, (address, address + size))

    def release(self, address: int) -> None:
        """Give a range back."""
        place = bisect_left(self._ranges, (address,))
        if place < len(self._ranges) and self._ranges[place][0] == address:
            del self._ranges[place]

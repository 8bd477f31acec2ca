"""A model of PyTorch's caching allocator on one device, which decides as `CUDACachingAllocator.cpp` does.

Sizes are in bytes. Memory runs out at `Device.available_bytes`, or where the memory fraction ends.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from gputui.explain.memory.rounding import SMALL_REQUEST_BYTES, rounded_bytes, segment_bytes
from gputui.explain.whatif.allocator.blocks import DEFAULT_POOL, Addresses, Block, FreeEntry, Pool, PoolId
from gputui.explain.whatif.allocator.expandable import ExpandableSegments
from gputui.explain.whatif.allocator.settings import Device
from gputui.model.attached.allocator import AllocatorSettings
from gputui.protocol.allocator_settings import LARGE_PAGE_BYTES

UNLIMITED = 1 << 62
QUANTUM_BYTES = 512


class Allocator:
    """One device's allocator: `malloc`, `free` and `empty_cache`, with PyTorch's counters."""

    def __init__(self, settings: AllocatorSettings, device: Device = Device()) -> None:  # noqa: B008 - it is immutable
        self.settings = (
            settings if settings.large_page_bytes > 0 else replace(settings, large_page_bytes=LARGE_PAGE_BYTES)
        )
        self._max_split = UNLIMITED if settings.max_split_bytes is None else settings.max_split_bytes
        rounding = settings.max_non_split_rounding_bytes
        self._non_split_rounding = self.settings.large_page_bytes if rounding is None else rounding
        self._available = UNLIMITED if device.available_bytes is None else device.available_bytes
        self._allowed = UNLIMITED if device.allowed_bytes is None else device.allowed_bytes
        self._collects = device.allowed_bytes is not None and settings.garbage_collection_threshold > 0
        self._sizes: dict[int, tuple[int, int]] = {}
        self._pools: dict[PoolId, tuple[Pool, Pool]] = {}
        self._waiting: dict[Block, None] = {}
        self.addresses = Addresses()
        self._expandable = ExpandableSegments(self, device.total_bytes)
        self.reserved_bytes = self.allocated_bytes = self.waiting_bytes = 0
        self.peak_reserved_bytes = self.peak_allocated_bytes = 0
        self.retries = self._segments = 0

    def malloc(self, requested: int, stream: int, pool_id: PoolId = DEFAULT_POOL) -> Block | None:
        """A block for a request of so many bytes; None where memory runs out, even after the cache was emptied."""
        sizes = self._sizes.get(requested)
        if sizes is None:
            sizes = rounded_bytes(self.settings, requested), segment_bytes(self.settings, requested)
            self._sizes[requested] = sizes
        size, segment = sizes
        pool = self.pool(pool_id, is_small=size <= SMALL_REQUEST_BYTES)
        block = self._find(pool, stream, size)
        if block is None:
            block = self._more(pool, stream, size, segment)
            if block is None:
                return None
        return self._split_and_allocate(block, size)

    def free(self, block: Block) -> None:
        """Free a block that no other stream uses."""
        block.is_allocated = False
        self.allocated_bytes -= block.size
        self._put_back(block)

    def defer(self, block: Block) -> None:
        """Free a block that another stream still uses: it cannot be used again before `complete`."""
        block.is_allocated = False
        block.is_waiting = True
        self.allocated_bytes -= block.size
        self.waiting_bytes += block.size
        self._waiting[block] = None

    def complete(self, block: Block) -> None:
        """Return a deferred block to its pool, when its stream is done; does nothing if `empty_cache` has done so."""
        if block in self._waiting:
            del self._waiting[block]
            block.is_waiting = False
            self.waiting_bytes -= block.size
            self._put_back(block)

    def empty_cache(self) -> None:
        """Complete all deferred blocks, then return free memory to the driver, except that of private pools."""
        for block in list(self._waiting):
            self.complete(block)
        default = self._pools.get(DEFAULT_POOL)
        for pool in reversed(default or ()):  # the large pool first
            self._release(pool)

    @property
    def stuck_bytes(self) -> int:
        """Free memory that would stay reserved after `empty_cache()`; private pools included."""
        inactive = self.reserved_bytes - self.allocated_bytes - self.waiting_bytes
        default = self._pools.get(DEFAULT_POOL, ())
        return inactive - sum(self._releasable(block) for pool in default for block in pool.free_blocks())

    def pool(self, pool_id: PoolId, *, is_small: bool) -> Pool:
        """The pool of small or of large blocks with this id."""
        if pool_id not in self._pools:
            older = self.settings.prefers_older
            small, large = (Pool(is_small=is_it, pool_id=pool_id, prefers_older=older) for is_it in (True, False))
            self._pools[pool_id] = (small, large)
        return self._pools[pool_id][0 if is_small else 1]

    def next_segment(self) -> int:
        """The number of a new segment."""
        self._segments += 1
        return self._segments

    def can_reserve(self, size: int) -> bool:
        """Whether the driver has `size` bytes left."""
        return self.reserved_bytes + size <= self._available

    def reserve(self, size: int) -> None:
        """Count bytes that came from the driver, or that went back to it if `size` is negative."""
        self.reserved_bytes += size
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)

    def _find(self, pool: Pool, stream: int, size: int) -> Block | None:
        """The smallest free block that fits, taken out of the pool; None without one that PyTorch would use."""
        if self._collects:
            pool.searches += 1
        entries = pool.free.get(stream)
        if not entries:
            return None
        index = bisect_left(entries, (size,))
        if index == len(entries):
            return None
        block = entries[index][3]
        if block.range is not None:
            index = self._past_expandable(entries, index)
            if index == len(entries):
                return None
            block = entries[index][3]
        if size < self._max_split <= block.size:
            return None
        if size >= self._max_split and block.size >= size + self._non_split_rounding:
            return None
        del entries[index]
        return block

    def _past_expandable(self, entries: list[FreeEntry], index: int) -> int:
        """The index of the block that PyTorch prefers to an expandable one: one that can grow less, or a native one."""
        if self.settings.is_expandable:
            while (
                index + 1 < len(entries)
                and entries[index][3].range is not None
                and entries[index + 1][3].growable_bytes < entries[index][3].growable_bytes
            ):
                index += 1
            return index
        while index < len(entries) and entries[index][3].range is not None:
            index += 1
        return index

    def _more(self, pool: Pool, stream: int, size: int, segment: int) -> Block | None:
        """A block of new memory; releases cached blocks in the order in which PyTorch does, where memory is short."""
        if self._collects:
            self._collect_garbage()
        block = self._grow(pool, stream, size, segment)
        if block is None and self._max_split != UNLIMITED and self._release_oversize(pool, stream, size):
            block = self._grow(pool, stream, size, segment)
        if block is None:
            self.empty_cache()
            self.retries += 1
            block = self._grow(pool, stream, size, segment)
        return block

    def _grow(self, pool: Pool, stream: int, size: int, segment: int) -> Block | None:
        if self.reserved_bytes + segment > self._allowed:
            return None
        if self.settings.is_expandable:
            return self._expandable.grow(pool, stream, size)
        if not self.can_reserve(segment):
            return None
        self.reserve(segment)
        return Block(self.addresses.take(segment), segment, stream, pool, None, self.next_segment())

    def _split_and_allocate(self, block: Block, size: int) -> Block:
        """Mark a block allocated, or its first `size` bytes where PyTorch would split the block."""
        rest = block.size - size
        pool = block.pool
        if pool.is_small or self.settings.is_expandable:
            is_split = rest >= QUANTUM_BYTES
        else:
            is_split = size < self._max_split and rest > SMALL_REQUEST_BYTES
        if is_split:
            first = Block(block.address, size, block.stream, pool, block.range, block.segment)
            first.link(block.previous, block)
            block.address += size
            block.size = rest
            pool.insert(block)
            block = first
        block.is_allocated = True
        self.allocated_bytes += block.size
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, self.allocated_bytes)
        return block

    def _put_back(self, block: Block) -> None:
        pool = block.pool
        pool.merge(block, block.previous)
        pool.merge(block, block.next)
        pool.insert(block)

    def _release(self, pool: Pool) -> None:
        for block in pool.free_blocks():
            if block.range is not None:
                self._expandable.unmap(block)
            elif not block.is_split:
                self._give_back(block)

    def _give_back(self, block: Block) -> None:
        block.pool.remove(block)
        self.addresses.release(block.address)
        self.reserve(-block.size)

    def _releasable(self, block: Block) -> int:
        if block.range is None:
            return 0 if block.is_split else block.size
        first, end = self._expandable.whole_pages(block)
        return end - first

    def _release_oversize(self, pool: Pool, stream: int, size: int) -> bool:
        """Release free blocks over `max_split_size`: one that is large enough, or several that add up to the size."""
        wanted = max(size, self._max_split)
        natives = [entry[3] for entry in pool.free.get(stream, ()) if entry[3].range is None]
        fitting = next((block for block in natives if block.size >= wanted), None)
        if fitting is not None:
            self._give_back(fitting)
            return True
        released = 0
        for block in reversed(natives):
            if released >= wanted or block.size < self._max_split:
                break
            released += block.size
            self._give_back(block)
        return released >= wanted

    def _collect_garbage(self) -> None:
        """Release unsplit large blocks, the oldest first, until `garbage_collection_threshold` is met."""
        excess = self.reserved_bytes - int(self.settings.garbage_collection_threshold * self._allowed)
        pool = self.pool(DEFAULT_POOL, is_small=False)
        whole = [block for block in pool.free_blocks() if not block.is_split]
        age = sum(pool.searches - block.born_at for block in whole)
        count, is_freed = len(whole), True
        while excess > 0 and is_freed and count:
            oldest = age / count
            is_freed = False
            for block in [block for block in whole if block.range is None]:
                block_age = pool.searches - block.born_at
                if block_age >= oldest:
                    is_freed = True
                    excess -= block.size
                    age -= block_age
                    count -= 1
                    whole.remove(block)
                    self._give_back(block)

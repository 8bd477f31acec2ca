"""A trace as a timeline: each block with its birth, death and size, and the allocated and reserved bytes at each event.

PyTorch's events have the requested sizes. A block can be larger, by rounding, and where the free block that it was cut
from left a rest too small to be split off. The rest follows from the blocks around it, so the trace is followed
backward from the map at its end. Events and blocks are columns, without an object each: a trace can hold millions.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right, insort
from dataclasses import dataclass

from gputui.explain.memory.rounding import SMALL_REQUEST_BYTES, SMALL_SEGMENT_BYTES, rounded_bytes
from gputui.model.attached.allocator import AllocatorMap, BlockState
from gputui.model.attached.trace import (
    ALLOC,
    FREE_COMPLETED,
    FREE_REQUESTED,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
    Trace,
)

SPLIT_ABOVE_BYTES = SMALL_REQUEST_BYTES
"""A free block in a large pool is split if more than this remains of it."""
BEFORE = -1
"""The birth of a block that was there when the trace began."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The blocks of one device's trace, as columns, and its curves.

    `births` and `deaths` are events: a block is alive after event e if birth <= e < death. A birth is `BEFORE` if it
    was before the trace, a death is the number of events if the block outlives the trace. `stacks` are indices in the
    trace's `stack_table`, -1 for none. `blocks` has for each event the block that it allocates or frees, -1 for none.
    `allocated` and `reserved` are bytes after each event, `*_before` the bytes before the first.
    """

    trace: Trace
    births: array[int]
    deaths: array[int]
    sizes_bytes: array[int]
    addresses: array[int]
    stacks: array[int]
    blocks: array[int]
    allocated: array[int]
    reserved: array[int]
    allocated_before: int
    reserved_before: int

    def __len__(self) -> int:
        """How many events there are."""
        return len(self.blocks)

    def alive_at(self, event: int) -> list[int]:
        """The blocks that are alive after an event, those from before the trace first."""
        pairs = enumerate(zip(self.births, self.deaths, strict=True))
        return [block for block, (birth, death) in pairs if birth <= event < death]

    def peak(self, first: int, end: int) -> int:
        """The event in [first, end) after which most was allocated, the earliest of equal ones."""
        part = self.allocated[first:end]
        return first + max(range(len(part)), key=part.__getitem__, default=0)


def timeline_of(trace: Trace, layout: AllocatorMap) -> Timeline:
    """The timeline of a trace that ends at the moment of the map."""
    followed = _Backward(trace, layout)
    followed.follow()
    return followed.timeline()


class _Backward:
    """Follows a trace from its end to its beginning."""

    def __init__(self, trace: Trace, layout: AllocatorMap) -> None:
        self._trace = trace
        self._settings = layout.settings
        self._births = array("q")
        self._deaths = array("q")
        self._sizes = array("q")
        self._addresses = array("Q")
        self._stacks = array("q")
        self._blocks = array("q", [-1]) * len(trace)
        self._alive: dict[int, int] = {}
        """The block at each address, at the event that is visited."""
        self._large = _LargeSegments()
        self._rounded: dict[int, int] = {}
        self._allocated_at_end = self._reserved_at_end = 0
        for segment in layout.segments:
            if segment.device != trace.device:
                continue
            self._reserved_at_end += segment.size_bytes
            if not segment.is_expandable:
                self._large.add(segment.address, segment.size_bytes)
            for block in segment.blocks:
                if block.state is BlockState.INACTIVE:
                    continue
                self._large.occupy(block.address)
                if block.state is BlockState.ACTIVE_ALLOCATED:
                    self._allocated_at_end += block.size_bytes
                    self._add(block.address, block.size_bytes, len(trace), -1)

    def _add(self, address: int, size_bytes: int, death: int, stack: int) -> int:
        number = self._alive[address] = len(self._births)
        self._births.append(BEFORE)
        self._deaths.append(death)
        self._sizes.append(size_bytes)
        self._addresses.append(address)
        self._stacks.append(stack)
        return number

    def follow(self) -> None:
        """Visit every event, the last first."""
        trace = self._trace
        actions, addresses, sizes, stacks = trace.actions, trace.addresses, trace.sizes_bytes, trace.stacks
        for event in range(len(trace) - 1, -1, -1):
            action, address = actions[event], addresses[event]
            if action == FREE_COMPLETED:
                self._large.occupy(address)
            elif action == FREE_REQUESTED:
                size_bytes = self._size(address, sizes[event], is_birth=False)
                self._blocks[event] = self._add(address, size_bytes, event, stacks[event])
            elif action == ALLOC:
                self._unborn(event, address, sizes[event], stacks[event])
            elif action == SEGMENT_ALLOC:
                self._large.remove(address)
            elif action == SEGMENT_FREE:
                self._large.add(address, sizes[event])

    def _unborn(self, event: int, address: int, requested_bytes: int, stack: int) -> None:
        self._large.vacate(address)
        number = self._alive.pop(address, None)
        if number is None:  # neither freed nor in the map: the trace lacks its end
            number = self._add(address, 0, len(self._trace), stack)
            del self._alive[address]
        if self._deaths[number] < len(self._trace) or not self._sizes[number]:
            self._sizes[number] = self._size(address, requested_bytes, is_birth=True)
        self._births[number] = event
        self._stacks[number] = stack
        self._blocks[event] = number

    def _size(self, address: int, requested_bytes: int, *, is_birth: bool) -> int:
        """The size of a block, from the free space behind it.

        That is exact at the block's birth. At its death, a neighbour from the time of its birth may be gone.
        """
        size_bytes = self._rounded.get(requested_bytes)
        if size_bytes is None:
            size_bytes = self._rounded[requested_bytes] = rounded_bytes(self._settings, requested_bytes)
        if size_bytes <= SMALL_REQUEST_BYTES:
            return size_bytes
        room = self._large.room(address)
        if room < size_bytes:  # an expandable segment, which is always split, or a contradiction
            return size_bytes
        limit = self._settings.max_split_bytes
        is_unsplit = room - size_bytes <= SPLIT_ABOVE_BYTES or (is_birth and limit is not None and size_bytes >= limit)
        return room if is_unsplit else size_bytes

    def timeline(self) -> Timeline:
        """The blocks, and the curves of their bytes."""
        trace, sizes, blocks = self._trace, self._sizes, self._blocks
        allocated, reserved = array("q"), array("q")
        allocated_now = reserved_now = 0
        for action, block, size_bytes in zip(trace.actions, blocks, trace.sizes_bytes, strict=True):
            if action == ALLOC:
                allocated_now += sizes[block]
            elif action == FREE_REQUESTED:
                allocated_now -= sizes[block]
            elif action in (SEGMENT_ALLOC, SEGMENT_MAP):
                reserved_now += size_bytes
            elif action in (SEGMENT_FREE, SEGMENT_UNMAP):
                reserved_now -= size_bytes
            allocated.append(allocated_now)
            reserved.append(reserved_now)
        allocated_before = self._allocated_at_end - allocated_now
        reserved_before = self._reserved_at_end - reserved_now
        return Timeline(
            trace=trace,
            births=self._births,
            deaths=self._deaths,
            sizes_bytes=sizes,
            addresses=self._addresses,
            stacks=self._stacks,
            blocks=blocks,
            allocated=array("q", [value + allocated_before for value in allocated]),
            reserved=array("q", [value + reserved_before for value in reserved]),
            allocated_before=allocated_before,
            reserved_before=reserved_before,
        )


class _LargeSegments:
    """The segments of large pools that are one cudaMalloc each, with the addresses of their blocks that are not free.

    Other addresses are ignored: in small pools and expandable segments, every rest is split off.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: dict[int, int] = {}
        self._occupied: dict[int, list[int]] = {}

    def add(self, address: int, size_bytes: int) -> None:
        if size_bytes > SMALL_SEGMENT_BYTES and address not in self._ends:
            insort(self._starts, address)
            self._ends[address] = address + size_bytes
            self._occupied[address] = []

    def remove(self, address: int) -> None:
        if self._ends.pop(address, None) is not None:
            del self._starts[bisect_right(self._starts, address) - 1]
            del self._occupied[address]

    def occupy(self, address: int) -> None:
        occupied = self._occupied_around(address)
        if occupied is not None:
            insort(occupied, address)

    def vacate(self, address: int) -> None:
        occupied = self._occupied_around(address)
        if occupied is not None:
            place = bisect_right(occupied, address) - 1
            if place >= 0 and occupied[place] == address:
                del occupied[place]

    def room(self, address: int) -> int:
        """The bytes from an address to the next block that is not free, or to the segment's end; 0 outside segments."""
        start = self._start(address)
        if start is None:
            return 0
        occupied = self._occupied[start]
        place = bisect_right(occupied, address)
        return (occupied[place] if place < len(occupied) else self._ends[start]) - address

    def _occupied_around(self, address: int) -> list[int] | None:
        start = self._start(address)
        return None if start is None else self._occupied[start]

    def _start(self, address: int) -> int | None:
        place = bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        start = self._starts[place]
        return start if address < self._ends[start] else None

"""What a program asked of the allocator, read from a trace: the same under any settings.

Requests, frees, frees that waited for another stream, and the program's own calls of `empty_cache()` are kept. The
allocator's own decisions, segments that it took and gave back, are dropped.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from gputui.explain.memory.trace_levels import GROWS, SHRINKS, growth, levels_of
from gputui.explain.whatif.allocator.blocks import DEFAULT_POOL, PoolId
from gputui.explain.whatif.allocator.settings import Device
from gputui.model.attached.allocator import Segment
from gputui.model.attached.trace import (
    ALLOC,
    FREE_COMPLETED,
    FREE_REQUESTED,
    OUT_OF_MEMORY,
    Trace,
)

FOREVER = 1 << 62
"""Stands for the place of a free, for an allocation that is never freed."""


class Kind(IntEnum):
    """What an operation does."""

    MALLOC = 0
    FREE = 1
    FREE_LATER = 2
    COMPLETE = 3
    EMPTY_CACHE = 4
    FAILED_MALLOC = 5


@dataclass(frozen=True, slots=True)
class Operations:
    """The operations in order, as columns; `numbers` has the allocation of each operation, -1 for `EMPTY_CACHE`.

    `sizes_bytes` (as requested), `streams`, `pools` and `addresses` are by the number of the allocation; the first
    `earlier` existed before the trace, ordered by address. `events` has each operation's index in the trace; a "place"
    is an index of an operation.
    """

    kinds: bytes
    numbers: array[int]
    events: array[int]
    sizes_bytes: array[int]
    streams: array[int]
    addresses: array[int]
    earlier: int
    pools: dict[int, PoolId] = field(default_factory=dict)
    doubtful_releases: int = 0
    """How many releases before a new segment may be the allocator's own, and not calls of `empty_cache()`."""

    @property
    def failure_at_end(self) -> int:
        """The place of a failed request after which nothing was allocated, as where it ended the program, or -1."""
        place = self.kinds.rfind(Kind.FAILED_MALLOC)
        return place if place > self.kinds.rfind(Kind.MALLOC) else -1


def operations_of(trace: Trace, segments: Sequence[Segment], device: Device = Device()) -> Operations:  # noqa: B008
    """The operations of a trace; `segments` is the map of its device at the end, `device` the memory of that device."""
    return _Reader(trace, segments, device).read()


class _Reader:
    def __init__(self, trace: Trace, segments: Sequence[Segment], device: Device) -> None:
        self._trace = trace
        self._segments = segments
        self._available = device.available_bytes
        self._kinds = bytearray()
        self._numbers, self._events = array("q"), array("q")
        self._sizes, self._streams, self._addresses = array("Q"), array("Q"), array("Q")
        self._live: dict[int, int] = {}
        self._waiting: set[int] = set()
        self._doubtful = 0

    def read(self) -> Operations:
        self._add_earlier()
        earlier = len(self._sizes)
        emptied = self._empty_cache_calls()
        for index, action in enumerate(self._trace.actions):
            if index in emptied:
                self._add(Kind.EMPTY_CACHE, -1, index)
            if action in (ALLOC, OUT_OF_MEMORY):
                self._malloc(index, Kind.MALLOC if action == ALLOC else Kind.FAILED_MALLOC)
            elif action == FREE_REQUESTED:
                self._free(index)
            elif action == FREE_COMPLETED:
                self._complete(index)
        return Operations(
            bytes(self._kinds),
            self._numbers,
            self._events,
            self._sizes,
            self._streams,
            self._addresses,
            earlier,
            self._private_pools(),
            self._doubtful,
        )

    def _add(self, kind: Kind, number: int, index: int) -> None:
        self._kinds.append(kind)
        self._numbers.append(number)
        self._events.append(index)

    def _new(self, address: int, size: int, stream: int) -> int:
        self._sizes.append(size)
        self._streams.append(stream)
        self._addresses.append(address)
        return len(self._sizes) - 1

    def _add_earlier(self) -> None:
        """Number the allocations from before the trace: freed or alive at its end, without being allocated in it."""
        trace = self._trace
        found: dict[int, tuple[int, int]] = {}
        seen: set[int] = set()
        for action, address, size, stream in zip(
            trace.actions, trace.addresses, trace.sizes_bytes, trace.streams, strict=True
        ):
            if action == ALLOC:
                seen.add(address)
            elif action in (FREE_REQUESTED, FREE_COMPLETED) and address not in seen:
                seen.add(address)
                found[address] = (size, stream)
        for segment in self._segments:
            for block in segment.blocks:
                if block.state.value != "inactive" and block.address not in seen:
                    found[block.address] = (block.requested_bytes, segment.stream)
        for address in sorted(found):
            self._live[address] = self._new(address, *found[address])

    def _malloc(self, index: int, kind: Kind) -> None:
        trace = self._trace
        address = trace.addresses[index] if kind is Kind.MALLOC else 0
        number = self._new(address, trace.sizes_bytes[index], trace.streams[index])
        if kind is Kind.MALLOC:
            self._live[address] = number
        self._add(kind, number, index)

    def _free(self, index: int) -> None:
        trace = self._trace
        address = trace.addresses[index]
        number = self._live.get(address)
        if number is None:
            return
        after = index + 1
        is_at_once = after < len(trace) and trace.actions[after] == FREE_COMPLETED and trace.addresses[after] == address
        if is_at_once:
            del self._live[address]
        else:
            self._waiting.add(number)
        self._add(Kind.FREE if is_at_once else Kind.FREE_LATER, number, index)

    def _complete(self, index: int) -> None:
        number = self._live.get(self._trace.addresses[index])
        if number is None:
            return
        del self._live[self._trace.addresses[index]]
        is_waiting = number in self._waiting
        self._waiting.discard(number)
        self._add(Kind.COMPLETE if is_waiting else Kind.FREE, number, index)

    def _empty_cache_calls(self) -> set[int]:
        """The index of the first event of each release by a call of `empty_cache()`."""
        if self._trace.empty_cache_calls is not None:
            return self._counted_calls(self._trace.empty_cache_calls)
        trace, calls, levels = self._trace, set(), levels_of(self._trace)
        reserved = sum(segment.size_bytes for segment in self._segments) - levels.reserved_bytes
        peak = reserved + levels.peak_reserved_bytes
        index, events = 0, len(trace)
        while index < events:
            action = trace.actions[index]
            if action not in SHRINKS:
                reserved += trace.sizes_bytes[index] if action in GROWS else 0
                index += 1
                continue
            first, before = index, reserved
            while index < events and trace.actions[index] in (*SHRINKS, FREE_COMPLETED):
                reserved -= trace.sizes_bytes[index] if trace.actions[index] in SHRINKS else 0
                index += 1
            if self._is_called(index, before, peak):
                calls.add(self._with_completions(first))
        return calls

    def _counted_calls(self, counts: tuple[int, ...]) -> set[int]:
        """The events before which the program called `empty_cache()`; `counts`: requests and frees before each call."""
        left = iter(sorted(counts))
        count, calls, done = next(left, None), set(), 0
        for index, action in enumerate(self._trace.actions):
            if count is None:
                break
            if action in (ALLOC, FREE_REQUESTED):
                while count is not None and count <= done:
                    calls.add(index)
                    count = next(left, None)
                done += 1
        return calls

    def _is_called(self, following: int, reserved: int, peak: int) -> bool:
        """Whether a release was `empty_cache()`, and not the allocator's own to make room for the event `following`."""
        trace = self._trace
        if following >= len(trace) or trace.actions[following] not in (*GROWS, OUT_OF_MEMORY):
            return True
        if trace.actions[following] == OUT_OF_MEMORY:
            return False
        wanted = reserved + trace.sizes_bytes[following]
        if self._available is not None:
            return wanted <= self._available
        self._doubtful += wanted > peak
        return True

    def _with_completions(self, first: int) -> int:
        """The first of the completed frees right before a release: the release waited for their streams."""
        actions = self._trace.actions
        while first > 0 and actions[first - 1] == FREE_COMPLETED and actions[first - 2] != FREE_REQUESTED:
            first -= 1
        return first

    def _private_pools(self) -> dict[int, PoolId]:
        """The pool of each allocation in a private pool, as far as the map at the end shows its segment."""
        private = sorted(
            (s.address, s.address + s.size_bytes, s.pool_id) for s in self._segments if s.pool_id != DEFAULT_POOL
        )
        if not private:
            return {}
        starts = [start for start, _, _ in private]
        pools = {}
        for number, address in enumerate(self._addresses):
            place = bisect_right(starts, address) - 1
            if place >= 0 and address < private[place][1]:
                pools[number] = private[place][2]
        return pools


def lifetimes(operations: Operations) -> tuple[array[int], array[int]]:
    """The places at which each allocation is made (-1: before the trace) and freed (FOREVER: never)."""
    count = len(operations.sizes_bytes)
    births, deaths = array("q", [-1]) * count, array("q", [FOREVER]) * count
    for place, (kind, number) in enumerate(zip(operations.kinds, operations.numbers, strict=True)):
        if kind in (Kind.MALLOC, Kind.FAILED_MALLOC):
            births[number] = place
        elif kind in (Kind.FREE, Kind.FREE_LATER):
            deaths[number] = place
    return births, deaths


def device_of(trace: Trace, segments: Iterable[Segment], total_bytes: int | None = None) -> Device:
    """The device's memory: what PyTorch had and what was free at the last out-of-memory error, None without one."""
    reserved = sum(segment.size_bytes for segment in segments)
    for index in range(len(trace) - 1, -1, -1):
        if trace.actions[index] == OUT_OF_MEMORY:
            return Device(reserved + trace.addresses[index], total_bytes)
        reserved -= growth(trace.actions[index], trace.sizes_bytes[index])
    return Device(None, total_bytes)

"""A replay of operations through the modelled allocator, and its outcome."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gputui.explain.whatif.allocator.blocks import DEFAULT_POOL, Block
from gputui.explain.whatif.allocator.device import Allocator
from gputui.explain.whatif.allocator.settings import Device
from gputui.explain.whatif.replay.layout import StartLayout
from gputui.explain.whatif.trace.beginning import Beginning
from gputui.explain.whatif.trace.operations import Kind, Operations
from gputui.model.attached.allocator import AllocatorSettings

OPERATIONS_A_SLICE = 20_000
"""How many operations pass between two reports of the progress."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the allocator would have done. `failed_at` is the event at which memory ran out, None if it never did.

    `unmet_requests` counts requests that failed in the recording and fail here too; the program went on after them,
    unless the trace ends with one. The curves have the bytes after each operation, up to the one that failed.
    """

    peak_reserved_bytes: int
    peak_allocated_bytes: int
    reserved_bytes: int
    allocated_bytes: int
    stuck_bytes: int
    retries: int
    failed_at: int | None
    failed_request_bytes: int
    reserved_curve: array[int]
    allocated_curve: array[int]
    unmet_requests: int = 0

    @property
    def is_out_of_memory(self) -> bool:
        """Whether a request could not be met."""
        return self.failed_at is not None


def replay_in_slices(
    operations: Operations,
    settings: AllocatorSettings,
    device: Device,
    sizes_bytes: Sequence[int] | None = None,
    start: StartLayout | Beginning | None = None,
) -> Iterator[float | Outcome]:
    """Replay, yielding the share done after each slice, and at last the outcome.

    `sizes_bytes` replaces the recorded sizes, by the number of the allocation. `start` is the layout before the first
    operation, or how the program came there; where it is None, the earlier allocations are made one after the other.
    """
    run = Run(operations, Allocator(settings, device), sizes_bytes or operations.sizes_bytes)
    failed = run.begin(start)
    for first in range(run.done, len(operations.kinds), OPERATIONS_A_SLICE):
        if failed is not None:
            break
        failed = run.go(first, min(first + OPERATIONS_A_SLICE, len(operations.kinds)))
        yield first / len(operations.kinds)
    yield run.outcome(failed)


class Run:
    """Operations on a modelled allocator, a few at a time.

    `blocks` are the live blocks by the number of their allocation. `done` counts the first operations that `begin`
    stands for: the replay goes on after them.
    """

    def __init__(self, operations: Operations, allocator: Allocator, sizes: Sequence[int]) -> None:
        self._operations = operations
        self.allocator = allocator
        self._sizes = sizes
        self.blocks: dict[int, Block] = {}
        self._reserved, self._allocated = array("Q"), array("Q")
        self._unmet = self.done = 0
        self._last_failed = -1
        self._steps: dict[int, Callable[[int], bool]] = {
            Kind.MALLOC: self._malloc,
            Kind.FREE: self._free,
            Kind.FREE_LATER: self._free_later,
            Kind.COMPLETE: self._complete,
            Kind.EMPTY_CACHE: self._empty_cache,
            Kind.FAILED_MALLOC: self._try_malloc,
        }
        """The function for each kind of operation; it returns False where memory runs out."""

    def begin(self, start: StartLayout | Beginning | None) -> int | None:
        """Allocate what was alive before the first operation; returns the place at which memory ran out, or None."""
        if isinstance(start, StartLayout):
            self.blocks.update(start.adopt(self.allocator))
            return None
        if start is not None:
            return self._begin_like(start)
        return None if all(map(self._malloc, range(self._operations.earlier))) else 0

    def _begin_like(self, beginning: Beginning) -> int | None:
        failed = beginning.bring_about(self._operations, self)
        self.done = beginning.cycle.first
        self._reserved.extend([self.allocator.reserved_bytes] * self.done)
        self._allocated.extend([self.allocator.allocated_bytes] * self.done)
        if failed is None:
            self._unmet = self.allocator.retries = 0
        return failed

    def do(self, kind: int, number: int) -> bool:
        """Do one operation; False where memory runs out."""
        return self._steps[kind](number)

    def go(self, first: int, end: int) -> int | None:
        """Do the operations [first, end); returns the one at which memory ran out."""
        allocator, steps = self.allocator, self._steps
        kinds, numbers = self._operations.kinds, self._operations.numbers
        reserved, allocated = self._reserved, self._allocated
        for place in range(first, end):
            if not steps[kinds[place]](numbers[place]):
                return place
            reserved.append(allocator.reserved_bytes)
            allocated.append(allocator.allocated_bytes)
        return None

    def _free(self, number: int) -> bool:
        self.allocator.free(self.blocks.pop(number))
        return True

    def _free_later(self, number: int) -> bool:
        self.allocator.defer(self.blocks[number])
        return True

    def _complete(self, number: int) -> bool:
        if number in self.blocks:
            self.allocator.complete(self.blocks.pop(number))
        return True

    def _empty_cache(self, _number: int) -> bool:
        self.allocator.empty_cache()
        return True

    def _try_malloc(self, number: int) -> bool:
        """A request that failed in the recording; if it succeeds here it is freed at once, as the trace has no free."""
        if self._malloc(number):
            return self._free(number)
        self._unmet += 1
        return True

    def _malloc(self, number: int) -> bool:
        operations = self._operations
        pool = operations.pools.get(number, DEFAULT_POOL) if operations.pools else DEFAULT_POOL
        block = self.allocator.malloc(self._sizes[number], operations.streams[number], pool)
        if block is None:
            self._last_failed = number
            return False
        self.blocks[number] = block
        return True

    def outcome(self, failed: int | None) -> Outcome:
        """The outcome; `failed` is the place of the operation at which memory ran out, None if it did not."""
        allocator, operations = self.allocator, self._operations
        at_end = operations.failure_at_end
        if failed is None and at_end >= 0 and operations.numbers[at_end] == self._last_failed:
            failed = at_end
        return Outcome(
            allocator.peak_reserved_bytes,
            allocator.peak_allocated_bytes,
            allocator.reserved_bytes,
            allocator.allocated_bytes,
            allocator.stuck_bytes,
            allocator.retries,
            None if failed is None else operations.events[failed] if operations.events else 0,
            0 if failed is None else self._sizes[self._last_failed],
            self._reserved,
            self._allocated,
            self._unmet,
        )

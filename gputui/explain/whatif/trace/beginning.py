"""How the program came to where a trace begins, as far as the trace itself tells.

A trace from the middle of a program shows which blocks existed, but not in which order they were allocated, and that
order decides where they lie under other settings or with another batch. Steps are alike, though. So the replay first
allocates what stays, then takes two steps like a recorded one, in the first of which the optimizer makes its states,
and goes on in the trace from where the recorded step began.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from gputui.explain.step.phases import Phase
from gputui.explain.whatif.allocator.blocks import Block
from gputui.explain.whatif.trace.operations import Kind, Operations, lifetimes
from gputui.explain.whatif.trace.parts import Parts

STEPS = 2


class Doer(Protocol):
    """The part of `replay.Run` that is needed here."""

    blocks: dict[int, Block]

    def do(self, kind: int, number: int) -> bool:
        """Do one operation; False where memory runs out."""
        ...


@dataclass(frozen=True, slots=True)
class Beginning:
    """A step (`cycle`), and numbers of the allocations before it.

    `given` exist before the first step: those that last, and a batch. `found` are all that exist where the trace goes
    on. The optimizer makes `states` at the operation `states_at`. `carried` has pairs of an allocation that is alive at
    the end of the cycle, and the one before the cycle whose place it takes in the next step.
    """

    cycle: Cycle
    given: tuple[int, ...]
    found: tuple[int, ...]
    states: tuple[int, ...]
    states_at: int
    carried: tuple[tuple[int, int], ...]

    def bring_about(self, operations: Operations, doer: Doer) -> int | None:
        """Execute it, so that the live blocks are those before the cycle. Returns where memory ran out, or None."""
        cycle = self.cycle
        if not self._make(self.given, doer):
            return cycle.first
        for step in range(STEPS):
            failed = self._do(operations, doer, range(cycle.first, cycle.end), makes_states=not step)
            if failed is None:
                self._carry(doer)
                failed = self._do(operations, doer, range(cycle.again, cycle.first), makes_states=False)
            if failed is not None:
                return failed
        missing = (number for number in self.found if number not in doer.blocks)
        return None if self._make(missing, doer) else cycle.first

    def _do(self, operations: Operations, doer: Doer, places: range, *, makes_states: bool) -> int | None:
        for place in places:
            if place == self.states_at and makes_states and not self._make(self.states, doer):
                return place
            kind, number = operations.kinds[place], operations.numbers[place]
            is_there = kind in _NEED_NOTHING or number in doer.blocks
            if is_there and not doer.do(kind, number):
                return place
        return None

    def _carry(self, doer: Doer) -> None:
        """Renumber blocks that the step left, as the next step knows them; free those that `carried` does not name."""
        keep = {*self.given, *self.found, *self.states}
        left = {number: block for number, block in doer.blocks.items() if number not in keep}
        for new, old in self.carried:
            if new in left:
                doer.blocks[old] = left.pop(new)
                del doer.blocks[new]
        for number, block in left.items():
            doer.do(Kind.COMPLETE if block.is_waiting else Kind.FREE, number)

    @staticmethod
    def _make(numbers: Iterable[int], doer: Doer) -> bool:
        return all(doer.do(Kind.MALLOC, number) for number in numbers)


_NEED_NOTHING = (Kind.MALLOC, Kind.FAILED_MALLOC, Kind.EMPTY_CACHE)


def beginning_of(operations: Operations, parts: Parts | None) -> Beginning | None:
    """How the program came to where the trace begins; None where no step repeats in it."""
    cycle = cycle_in(operations)
    if cycle is None:
        return None
    births, deaths = lifetimes(operations)
    found = _alive_at(cycle.first, births, deaths)
    lasting = [number for number in found if deaths[number] >= cycle.end]
    states_at, states = _states(parts, cycle, set(lasting))
    sizes, made = operations.sizes_bytes, set(states)
    of_weights = {sizes[number] for number in lasting}
    given = [n for n in found if n not in made and (deaths[n] >= cycle.end or sizes[n] not in of_weights)]
    left = [number for number in _alive_at(cycle.end, births, deaths) if births[number] >= cycle.again]
    stood_for = [number for number in _alive_at(cycle.again, births, deaths) if deaths[number] < cycle.end]
    carried = _paired(sizes, left, stood_for)
    return Beginning(cycle, tuple(given), tuple(found), states, states_at, carried)


def _alive_at(place: int, births: array[int], deaths: array[int]) -> list[int]:
    return [number for number, birth in enumerate(births) if birth < place <= deaths[number]]


def _states(parts: Parts | None, cycle: Cycle, lasting: set[int]) -> tuple[int, tuple[int, ...]]:
    """Where in the cycle the optimizer makes its states, and which; -1 and none where that is not known."""
    spans = parts.spans if parts is not None else ()
    optimizer = [span.first for span in spans if span.phase is Phase.OPTIMIZER]
    states_at = next((first for first in optimizer if cycle.first <= first < cycle.end), -1)
    if parts is None or states_at < 0:
        return -1, ()
    return states_at, tuple(number for number in parts.states if number in lasting)


def _paired(sizes: array[int], new: list[int], old: list[int]) -> tuple[tuple[int, int], ...]:
    """Pairs of one of `new` with one of `old` of the same size, in order; allocations without a match are left out."""
    by_size: dict[int, list[int]] = {}
    for number in reversed(old):
        by_size.setdefault(sizes[number], []).append(number)
    return tuple((number, by_size[sizes[number]].pop()) for number in new if by_size.get(sizes[number]))


LIKE_THE_MOST = 0.9
"""The first step whose peak reaches this share of the trace's peak is taken; operations before it are not replayed."""
SAME_REQUESTS = 8
"""Two places are the same point of a step if as much is allocated, and this many requests before had equal sizes."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """A step is the operations [first, end), then [again, first): at `end` the step has come as far as at `again`."""

    first: int
    end: int
    again: int


def cycle_in(operations: Operations) -> Cycle | None:
    """The first whole step that begins where least is allocated; None if there is none, or a failed request before it.

    Where a trace has only one such place, the step is put together of what follows the place and what precedes it.
    """
    curve = _allocated(operations)
    least = min(curve)
    valleys = [place for place, size_bytes in enumerate(curve) if size_bytes == least]
    cycle = _between(valleys, curve) or _around(valleys[0], operations, curve)
    hides_failure = cycle is not None and Kind.FAILED_MALLOC in operations.kinds[: cycle.first]
    return None if hides_failure else cycle


def _allocated(operations: Operations) -> list[int]:
    """The requested bytes that are alive before each operation, and after the last."""
    alive = sum(operations.sizes_bytes[: operations.earlier])
    curve = [alive]
    for kind, number in zip(operations.kinds, operations.numbers, strict=True):
        if kind == Kind.MALLOC:
            alive += operations.sizes_bytes[number]
        elif kind in (Kind.FREE, Kind.FREE_LATER):
            alive -= operations.sizes_bytes[number]
        curve.append(alive)
    return curve


def _between(valleys: Sequence[int], curve: Sequence[int]) -> Cycle | None:
    """The first step from one valley (a place where least is allocated) to the next that is `LIKE_THE_MOST`."""
    least = curve[valleys[0]]
    enough = least + LIKE_THE_MOST * (max(curve[valleys[0] : valleys[-1] + 1]) - least)
    for first, end in pairwise(valleys):
        if end - first > 1 and max(curve[first:end]) > enough:
            return Cycle(first, end, first)
    return None


def _around(valley: int, operations: Operations, curve: Sequence[int]) -> Cycle | None:
    """The step around the only valley: from it to the last place like an earlier one, then from that to the valley."""
    points: dict[tuple[int, ...], int] = {}
    requests: list[int] = []
    cycle = None
    for place, (kind, number) in enumerate(zip(operations.kinds, operations.numbers, strict=True)):
        point = (curve[place], *requests[-SAME_REQUESTS:])
        if len(requests) >= SAME_REQUESTS:
            if place <= valley:
                points[point] = place
            elif point in points:
                cycle = Cycle(valley, place, points[point])
        if kind == Kind.MALLOC:
            requests.append(operations.sizes_bytes[number])
    return cycle

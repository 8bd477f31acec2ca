"""How the program came to where a trace begins, as well as the trace itself can say.

A trace from the middle of a program shows what was there, and not in which order it came: that decides where it lies,
under other settings or with another batch. But one step is like another. So what stays is allocated, then the program
takes two steps like a recorded one, in the first of which the optimizer makes its states; after that the trace goes on
from where that step began.
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
    """What does operations: see `replay.Run`."""

    blocks: dict[int, Block]

    def do(self, kind: int, number: int) -> bool:
        """Do one operation; False where memory runs out."""
        ...


@dataclass(frozen=True, slots=True)
class Beginning:
    """A step, and what is there before it.

    `given` is what the first step finds: what lasts, and a batch. `found` is all that is there where the trace goes on.
    `states` are made by the optimizer at the operation `states_at`. `carried` has, for what is there at the end of the
    cycle, the allocation that it then stands for.
    """

    cycle: Cycle
    given: tuple[int, ...]
    found: tuple[int, ...]
    states: tuple[int, ...]
    states_at: int
    carried: tuple[tuple[int, int], ...]

    def bring_about(self, operations: Operations, doer: Doer) -> int | None:
        """Do all of it; the blocks are then those before the cycle. Returns where memory ran out, or None."""
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
        """What the step left becomes what it finds; what nothing stands for is freed."""
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
    """The beginning before a trace; None where no step repeats."""
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
    """Each of `new` with one of `old` of the same size, in order, as far as there are any."""
    by_size: dict[int, list[int]] = {}
    for number in reversed(old):
        by_size.setdefault(sizes[number], []).append(number)
    return tuple((number, by_size[sizes[number]].pop()) for number in new if by_size.get(sizes[number]))


LIKE_THE_MOST = 0.9
"""A step in which so much of the most is allocated is like the others; what comes before it is not replayed."""
SAME_REQUESTS = 8
"""The program is at the same point where as much is allocated, after so many requests of the same sizes."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """The step is the operations [first, end), then [again, first): at `end` the program is where it is at `again`."""

    first: int
    end: int
    again: int


def cycle_in(operations: Operations) -> Cycle | None:
    """The first whole step that begins where least is allocated; None where there is none, or it would hide a failure.

    Where a trace has one such place only, a step is what follows that place and then what comes before it.
    """
    curve = _allocated(operations)
    least = min(curve)
    valleys = [place for place, size_bytes in enumerate(curve) if size_bytes == least]
    cycle = _between(valleys, curve) or _around(valleys[0], operations, curve)
    hides_failure = cycle is not None and Kind.FAILED_MALLOC in operations.kinds[: cycle.first]
    return None if hides_failure else cycle


def _allocated(operations: Operations) -> list[int]:
    """What is allocated before each operation, and after the last."""
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
    """From one valley to the next with about the most between them."""
    least = curve[valleys[0]]
    enough = least + LIKE_THE_MOST * (max(curve[valleys[0] : valleys[-1] + 1]) - least)
    for first, end in pairwise(valleys):
        if end - first > 1 and max(curve[first:end]) > enough:
            return Cycle(first, end, first)
    return None


def _around(valley: int, operations: Operations, curve: Sequence[int]) -> Cycle | None:
    """From the valley to where the program is as somewhere before it, and from there to the valley."""
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

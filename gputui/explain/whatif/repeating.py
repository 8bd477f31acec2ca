"""Where in a trace a step begins and ends: the program is then at the same point again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gputui.explain.whatif.operations import Kind, Operations

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

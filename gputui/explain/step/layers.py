"""A step as columns of a graph: allocated bytes by kind at the highest event of each column, and reserved bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gputui.explain.step.kinds import KINDS
from gputui.explain.step.step import Step
from gputui.model.attached.trace import ALLOC, FREE_REQUESTED


@dataclass(frozen=True, slots=True)
class Column:
    """Events [`first`, `end`): bytes by kind, in the order of `KINDS`, at the highest event, and the most reserved."""

    first: int
    end: int
    layers: tuple[int, ...]
    reserved: int


def columns_of(step: Step, width: int) -> tuple[Column, ...]:
    """The step in at most `width` columns of equal numbers of events."""
    timeline, kinds = step.timeline, step.naming.kinds
    count = min(width, step.end - step.first)
    if count < 1:
        return ()
    bounds = [step.first + (step.end - step.first) * number // count for number in range(count + 1)]
    highest = {timeline.peak(first, end): number for number, (first, end) in enumerate(pairwise(bounds))}
    sums = [0] * len(KINDS)
    for block in timeline.alive_at(step.first - 1):
        sums[kinds[block]] += timeline.sizes_bytes[block]
    columns: list[Column] = []
    for event in range(step.first, step.end):
        action, block = timeline.trace.actions[event], timeline.blocks[event]
        if action == ALLOC:
            sums[kinds[block]] += timeline.sizes_bytes[block]
        elif action == FREE_REQUESTED:
            sums[kinds[block]] -= timeline.sizes_bytes[block]
        number = highest.get(event)
        if number is not None:
            first, end = bounds[number], bounds[number + 1]
            columns.append(Column(first, end, tuple(sums), max(timeline.reserved[first:end])))
    return tuple(columns)


def column_at(columns: Sequence[Column], event: int) -> int:
    """The index of the column with an event, or else of the nearest."""
    return max(0, bisect_right([column.first for column in columns], event) - 1)

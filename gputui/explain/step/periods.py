"""The steps in a trace, found without a hook in the program: steps make the same requests."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from math import log
from statistics import median

from gputui.explain.step.phases import Phase, PhaseRun
from gputui.explain.step.timeline import Timeline
from gputui.model.attached.trace import ALLOC, FREE_REQUESTED, Trace

GRAM_LENGTHS = (16, 8, 4, 2)
"""How many requests in a row are compared: long sequences are tried first."""
IRREGULAR = 0.25
"""The share by which distances may differ from their median, as for batches of other lengths, or steps that log."""
ALIKE = 0.5
"""The share of requests that two steps must have in common."""
COVERED = 0.5
"""The share of the trace that steps must cover, so that equal layers within a step do not pass for steps."""
JOINED_AT_MOST = 4
"""How many optimizer phases a step may have at most."""


def steps_of(timeline: Timeline, phases: Sequence[PhaseRun]) -> tuple[tuple[int, int], ...]:
    """The whole steps in a trace as (first event, end), the oldest first; none if nothing repeats.

    A step ends with its optimizer phase, where there is one; otherwise where least is allocated.
    """
    births = [event for event, action in enumerate(timeline.trace.actions) if action == ALLOC]
    requests = _requests(timeline.trace, births)
    ends = [run.end for run in phases if run.phase is Phase.OPTIMIZER and run.end < len(timeline)]
    if len(ends) >= 2:
        return _by_optimizer(timeline, ends)
    anchors = anchors_of(requests)
    cuts = [births[place] for place in anchors]
    if len(cuts) < 2 or FREE_REQUESTED not in timeline.trace.actions[cuts[0] : cuts[-1]]:
        return ()  # a list that is filled is no step
    return _aligned(timeline, cuts)


def _requests(trace: Trace, births: Sequence[int]) -> list[int]:
    """A number for each request, equal for the same size and stack: sizes alone are equal by chance."""
    numbers: dict[tuple[int, int], int] = {}
    return [numbers.setdefault((trace.sizes_bytes[event], trace.stacks[event]), len(numbers)) for event in births]


def anchors_of(requests: Sequence[int]) -> list[int]:
    """Where each repetition of a sequence of requests ("anchor") begins; [] if none repeats at regular distances.

    Equal layers repeat within a step only, so their distances are irregular or do not cover the trace.
    """
    for length in GRAM_LENGTHS:
        anchors = _anchors(requests, length)
        if anchors:
            return anchors
    return []


def _anchors(requests: Sequence[int], length: int) -> list[int]:
    grams: dict[int, list[int]] = defaultdict(list)
    for place, gram in enumerate(zip(*(requests[shift:] for shift in range(length)), strict=False)):
        grams[hash(gram)].append(place)
    votes: dict[int, list[list[int]]] = defaultdict(list)
    for places in grams.values():
        distance = _regular_distance(places, len(requests))
        if distance:
            votes[_bucket(distance)].append(places)
    for candidates in sorted(votes.values(), key=lambda some: sum(map(len, some)), reverse=True):
        places = min(candidates, key=lambda some: (-len(some), some[0]))
        if _is_alike(requests, places):
            return places
    return []


def _regular_distance(places: list[int], requests: int) -> float:
    """The median distance between occurrences, 0.0 if they are irregular or cover too little."""
    if len(places) < 2:
        return 0.0
    distances = [after - before for before, after in pairwise(places)]
    middle = median(distances)
    is_regular = all(abs(distance - middle) <= IRREGULAR * middle for distance in distances)
    is_covering = places[-1] - places[0] + middle >= COVERED * requests
    return middle if is_regular and is_covering else 0.0


def _bucket(distance: float) -> int:
    """A number that is the same, or one more or less, for distances that differ by a few percent."""
    return round(log(distance) / log(1 + IRREGULAR / 2))


def _is_alike(requests: Sequence[int], places: list[int]) -> bool:
    """Whether the requests after one of the last anchors are mostly those after the one before it."""
    distance = places[-1] - places[-2]
    last = Counter(requests[places[-1] : places[-1] + distance])
    before = Counter(requests[places[-2] : places[-1]])
    common = (last & before).total()
    if len(places) > 2:
        common = max(common, (Counter(requests[places[-3] : places[-2]]) & before).total())
    return common >= ALIKE * min(distance, max(1, last.total()))


def _by_optimizer(timeline: Timeline, ends: list[int]) -> tuple[tuple[int, int], ...]:
    """Steps between ends of optimizer phases; a step has several such phases where a program has several optimizers."""
    cuts = _joined_cuts(timeline, ends)
    return tuple(pairwise(cuts))


def _joined_cuts(timeline: Timeline, ends: list[int]) -> list[int]:
    contents = [_requests_between(timeline, first, end) for first, end in pairwise(ends)]
    for joined in range(1, JOINED_AT_MOST + 1):
        pairs = list(zip(contents, contents[joined:], strict=False))
        if not pairs:
            break
        common = sum((one & other).total() for one, other in pairs)
        if common >= 0.8 * sum(max(one.total(), other.total()) for one, other in pairs):
            return ends[(len(ends) - 1) % joined :: joined]
    return ends


def _requests_between(timeline: Timeline, first: int, end: int) -> Counter[int]:
    trace = timeline.trace
    return Counter(
        size
        for size, action in zip(trace.sizes_bytes[first:end], trace.actions[first:end], strict=True)
        if action == ALLOC
    )


def _aligned(timeline: Timeline, cuts: list[int]) -> tuple[tuple[int, int], ...]:
    """The steps between `cuts`, cut where least is allocated instead of at the anchor."""
    allocated = timeline.allocated
    if cuts[-1] + cuts[-1] - cuts[-2] <= len(timeline):
        cuts = [*cuts, cuts[-1] + cuts[-1] - cuts[-2]]  # a whole step follows the last anchor
    lowest = []
    for first, end in pairwise(cuts):
        part = allocated[first:end]
        lowest.append(first + max(range(len(part)), key=lambda place: (-part[place], place)) + 1)
    if len(lowest) < 2:
        return ((cuts[0], cuts[1]),)
    return tuple(pairwise(lowest))

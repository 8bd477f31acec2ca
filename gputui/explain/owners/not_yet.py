"""Memory without a name because looks have not come to it yet, as opposed to memory that nothing leads to."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.model.attached.moment import DeviceMoment, TargetMoment
from gputui.model.reading import ProblemKind

LEAST_SHARE = 0.01
"""Of the allocated memory: a smaller part without a name is not worth a sentence."""
LOOKS_COMPARED = 6
LONGEST_S = 120.0
"""If naming the rest would take longer at the rate of the last looks, it may never end: no time is told then."""


PastLook = tuple[float, int]
"""The time of a look (epoch seconds), and how many bytes had no name then."""


def not_yet_words(moment: TargetMoment, device: DeviceMoment, looks: Sequence[PastLook]) -> str:
    """How much memory is not named yet, and how long naming it will take: "41% not named yet, about 8 s more".

    "" where nearly all has a name, or nothing leads to the rest. `looks` are the last looks, oldest first.
    """
    layout = device.layout
    if layout is None or moment.ended or moment.file:
        return ""
    allocated = layout.statistics.allocated_bytes
    if layout.not_yet_bytes < LEAST_SHARE * allocated or not layout.not_yet_bytes:
        return ""
    left_s = _left_s(layout.not_yet_bytes - LEAST_SHARE * allocated, looks[-LOOKS_COMPARED:])
    more = f", about {left_s:.0f} s more" if left_s and not waits_for_key(moment) else ""
    return f"{layout.not_yet_bytes / allocated:.0%} not named yet{more}"


def waits_for_key(moment: TargetMoment) -> bool:
    """Whether only a look that the user asks for would name more: automatic looks are off, or lack the map."""
    return any(problem.kind is ProblemKind.LOOK_ON_REQUEST for problem in moment.problems)


def what_names(moment: TargetMoment, what: str = "these blocks") -> str:
    """A sentence on which looks may name `what`, which has no name yet; "" after the end and for files."""
    if moment.ended or moment.file:
        return ""
    return f"{'A look on request' if waits_for_key(moment) else 'The next looks'} may name {what}."


def _left_s(wanted_bytes: float, looks: Sequence[PastLook]) -> float:
    """How many seconds looks need to name so many bytes, at the rate of the last looks; 0 where that is unknown."""
    highest = max(looks, key=lambda look: look[1], default=(0.0, 0))
    newest = looks[-1] if looks else highest
    named_bytes, took_s = highest[1] - newest[1], newest[0] - highest[0]
    if named_bytes <= 0 or took_s <= 0:
        return 0.0
    left_s = wanted_bytes * took_s / named_bytes
    return max(1.0, left_s) if left_s <= LONGEST_S else 0.0

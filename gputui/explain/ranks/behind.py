"""Which attached rank keeps others waiting: the one with the fewest collectives, in a process group that stands still.

A rank that waits has launched its collective already; the rank that it waits for has launched at least one less.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gputui.explain.owners.names import counted, listed
from gputui.explain.ranks.collectives import CIRCLE
from gputui.model.attached.moment import TargetMoment
from gputui.model.collectives import Launched

STANDS_S = 10.0
"""A group stands still if no attached rank has launched a collective in it for this long."""
NAMED_AT_MOST = 4
"""How many ranks get a sentence of their own."""


class Behind(NamedTuple):
    """A rank that has launched fewer collectives in a group than the others, which wait for it."""

    moment: TargetMoment
    group: Launched
    waiting: tuple[TargetMoment, ...]
    reached: int
    """How many collectives the rank that is furthest has launched."""
    waiting_s: float

    @property
    def sentence(self) -> str:
        """How many ranks wait for this one, for how long, the counts, and what it does meanwhile."""
        ranks = counted(len(self.waiting), "rank")
        others = "the other" if len(self.waiting) == 1 else "the others"
        return (
            f"{_named(self.moment, self.group)} has kept {ranks} waiting for {self.waiting_s:.0f} s: it has launched"
            f" {counted(self.group.launched, 'collective')} in {self.group.name}, {others} {self.reached:,}."
            f"{_doing(self.moment)}"
        )


def ranks_behind(moments: Iterable[TargetMoment]) -> tuple[Behind, ...]:
    """The ranks that others wait for and that wait for nobody, the most awaited first; if all wait, all of them."""
    groups: dict[object, list[tuple[TargetMoment, Launched]]] = {}
    for moment in moments:
        for group in moment.groups:
            groups.setdefault(group.group, []).append((moment, group))
    found = [one for members in groups.values() for one in _behind_in(members)]
    waiting = {id(moment) for one in found for moment in one.waiting}
    first = [one for one in found if id(one.moment) not in waiting] or found
    each = {id(one.moment): one for one in sorted(first, key=lambda one: len(one.waiting))}
    return tuple(sorted(each.values(), key=lambda one: -len(one.waiting)))


def sentences(moments: Sequence[TargetMoment]) -> list[str]:
    """The sentences about ranks that others wait for; [] if there is none."""
    found = ranks_behind(moments)
    if not found:
        return []
    waiting = {id(moment) for one in found for moment in one.waiting}
    lines = [CIRCLE] if all(id(one.moment) in waiting for one in found) else []
    lines += [one.sentence for one in found[:NAMED_AT_MOST]]
    rest = found[NAMED_AT_MOST:]
    return lines + ([f"So have {listed(_named(one.moment, one.group) for one in rest)}."] if rest else [])


def _behind_in(members: list[tuple[TargetMoment, Launched]]) -> list[Behind]:
    """The members of one group that are behind; [] if the group moves or all are equally far."""
    if len({group.rank for _, group in members}) < len(members):
        return []  # two jobs that cannot be told apart
    now = max(moment.time for moment, _ in members)
    unchanged_s = now - max(group.since for _, group in members)
    if unchanged_s < STANDS_S:
        return []
    fewest, most = min(group.launched for _, group in members), max(group.launched for _, group in members)
    waiting = tuple(moment for moment, group in members if group.launched > fewest and not moment.ended)
    behind = [(moment, group) for moment, group in members if group.launched == fewest]
    if fewest == most or not waiting:
        return []
    return [Behind(moment, group, waiting, most, unchanged_s) for moment, group in behind]


def _named(moment: TargetMoment, group: Launched) -> str:
    rank = group.rank if moment.greeting.rank is None else moment.greeting.rank
    return f"Rank {rank} (PID {moment.place})"


def _doing(moment: TargetMoment) -> str:
    if moment.ended:
        return " It has ended."
    return f" Its main thread is at {moment.main_thread}." if moment.main_thread else ""

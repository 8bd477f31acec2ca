"""Which rank is elsewhere: most ranks of a job stand at one line, in a collective that others have yet to reach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gputui.model.collectives import RankLine

UNREADABLE = "At which lines its ranks here are cannot be read: it takes Python programs that you may look into."
MOVING = "Its {} ranks here move: a moment before, they were at other lines."
TOGETHER = "All {} ranks here are at {}: they wait for ranks elsewhere, or for their GPUs."
APART = "Its {} ranks here are at different lines."
ONE = "Rank {} (PID {}) is at {}, the other {} here at {}."
SEVERAL = "{} of {} ranks here are not where the others are, at {}."


def elsewhere(lines: Sequence[RankLine]) -> tuple[str, tuple[RankLine, ...]]:
    """A sentence, and the ranks that are not at the line of most; all readable ranks if no line has most of them."""
    known = [each for each in lines if each.line]
    standing = Counter(each.line for each in known if not each.has_moved)
    if not standing:
        return (MOVING.format(len(known)) if known else UNREADABLE), ()
    line, count = standing.most_common(1)[0]
    others = tuple(each for each in known if each.line != line or each.has_moved)
    if not others:
        return TOGETHER.format(count, line), ()
    if count <= len(others):
        return APART.format(len(known)), tuple(known)
    if len(others) == 1:
        first, ranks = others[0], f"{count} ranks"
        return ONE.format(first.rank, first.pid, first.line, ranks, line), others
    return SEVERAL.format(len(others), len(known), line), others

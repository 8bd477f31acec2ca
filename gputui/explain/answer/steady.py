"""Keeps findings from flickering: a finding appears once it has held for some evaluations, and then stays as past."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gputui.explain.advice.relevance import in_order
from gputui.model.attached.analysis import Finding
from gputui.model.weight import Weight

APPEARS_AFTER = 2
"""A finding appears when it holds in this many evaluations in a row; those of the first evaluation, at once."""
LEAVES_AFTER = 3
"""A finding is past after this many evaluations in a row without it."""
PAST_FOR_S = 60.0
"""How long a finding is still shown after it last held."""


@dataclass(frozen=True, slots=True)
class _Standing:
    """A finding as it was last made, when that was, and in how many last evaluations it `held`, or was `missed`."""

    finding: Finding
    time: float
    held: int
    missed: int = 0
    is_shown: bool = False


@dataclass(frozen=True, slots=True)
class Standings:
    """The state of all findings after the evaluation at `time` (epoch seconds; 0.0: none so far).

    `look_time` is when the look of that evaluation was taken.
    """

    time: float = 0.0
    standings: tuple[_Standing, ...] = ()
    look_time: float = 0.0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings to show: problems first, past findings last."""
        shown = [standing for standing in self.standings if standing.is_shown]
        present = [standing.finding for standing in shown if standing.missed < LEAVES_AFTER]
        past = [replace(s.finding, until=s.time) for s in shown if s.missed >= LEAVES_AFTER]
        return (*in_order(present), *in_order(past))


def after(
    before: Standings, findings: Sequence[Finding], time: float, look_time: float = 0.0, *, is_last: bool = False
) -> Standings:
    """The state after one more evaluation at `time`; in the last one (`is_last`), findings appear at once."""
    is_first = not before.time
    earlier = {standing.finding.kind: standing for standing in before.standings}
    now = []
    for finding in findings:
        last = earlier.pop(finding.kind, None)
        held = last.held + 1 if last and not last.missed else 1
        is_shown = is_first or is_last or held >= APPEARS_AFTER or (last is not None and last.is_shown)
        now.append(_Standing(finding, time, held, is_shown=is_shown))
    for last in earlier.values():
        missed = replace(last, held=0, missed=last.missed + 1)
        is_worth_a_word = missed.missed < LEAVES_AFTER or last.finding.weight is not Weight.FACT
        if last.is_shown and is_worth_a_word and time - last.time < PAST_FOR_S:
            now.append(missed)
    return Standings(time, tuple(now), look_time)

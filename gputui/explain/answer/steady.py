"""Findings that do not come and go: one appears after it has held for some looks, and stays for a while as past."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gputui.explain.advice.relevance import in_order
from gputui.model.attached.analysis import Finding
from gputui.model.weight import Weight

APPEARS_AFTER = 2
"""In this many evaluations one after the other; the first evaluation of all counts at once."""
LEAVES_AFTER = 3
"""Evaluations without it."""
PAST_FOR_S = 60.0
"""How long a finding that no longer holds is still shown."""


@dataclass(frozen=True, slots=True)
class _Standing:
    """A finding as it was last made, when that was, and in how many evaluations in a row it held, or did not."""

    finding: Finding
    time: float
    held: int
    missed: int = 0
    is_shown: bool = False


@dataclass(frozen=True, slots=True)
class Standings:
    """The state of all findings at `time` (epoch seconds), from one evaluation to the next.

    `look_time` is when the look was taken that the last of them were made from.
    """

    time: float = 0.0
    standings: tuple[_Standing, ...] = ()
    look_time: float = 0.0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those to show: problems first, past ones last."""
        shown = [standing for standing in self.standings if standing.is_shown]
        present = [standing.finding for standing in shown if standing.missed < LEAVES_AFTER]
        past = [replace(s.finding, until=s.time) for s in shown if s.missed >= LEAVES_AFTER]
        return (*in_order(present), *in_order(past))


def after(
    before: Standings, findings: Sequence[Finding], time: float, look_time: float = 0.0, *, is_last: bool = False
) -> Standings:
    """The state after one more evaluation at `time`; after the last one, nothing waits for another."""
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
        if last.is_shown and is_worth_a_word and time - last.time < PAST_FOR_S + LEAVES_AFTER:
            now.append(missed)
    return Standings(time, tuple(now), look_time)

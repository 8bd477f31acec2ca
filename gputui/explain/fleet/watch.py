"""Findings about a fleet, with since when each has been there, kept from one answer of the rules to the next."""

from __future__ import annotations

from gputui.explain.fleet.rules import finding_of, spoken_of
from gputui.model.fleet.fleet import Fleet
from gputui.model.machine.finding import MachineFinding
from gputui.model.weight import Weight


class FleetWatch:
    """Asks the rules about each new fleet; problems come first, then the oldest findings."""

    def __init__(self) -> None:
        self._asked_for: tuple[float, int] = (0.0, 0)
        self._first_time = 0.0
        self._since: dict[tuple[str, tuple[object, ...]], float] = {}
        self._findings: tuple[MachineFinding, ...] = ()

    def take(self, fleet: Fleet, told: tuple[MachineFinding, ...] = ()) -> tuple[MachineFinding, ...]:
        """The findings now, with those that nodes have `told`; the last ones while the fleet has no newer signs."""
        asked_for = (fleet.signs_time, len(fleet.signs))
        if not fleet.signs_time or asked_for == self._asked_for:
            return self._findings
        self._asked_for = asked_for
        self._first_time = self._first_time or fleet.signs_time
        found, since = list(told), {}
        for rule, spoken in spoken_of(fleet):
            key = (rule.kind, spoken.about)
            since[key] = self._since.get(key, fleet.signs_time - rule.seen_for_s)
            is_older = since[key] <= self._first_time
            found.append(finding_of(rule, spoken, since[key], is_older=is_older))
        found.sort(key=lambda finding: (finding.weight is not Weight.PROBLEM, finding.since))
        self._since, self._findings = since, tuple(found)
        return self._findings

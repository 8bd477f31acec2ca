"""The verdict and the steady findings about an attached process, and what is remembered to compute them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from gputui.explain.advice import findings
from gputui.explain.advice.held.holders import Holder
from gputui.explain.answer.estimates import LookHolders
from gputui.explain.answer.served import in_servers_words
from gputui.explain.answer.steady import Standings, after
from gputui.explain.answer.verdict import Verdict, holders_at_top, look_holders, verdict
from gputui.model.attached.analysis import Finding
from gputui.model.attached.moment import DeviceMoment, TargetMoment
from gputui.model.attached.timeline import Timeline

EVALUATED_EVERY_S = 2.0
"""How often findings are made between looks: counters alone change findings, too."""
KEPT = 64
LOOKS_COMPARED = 24
MOMENTS_BEFORE = 6
"""How many looks before the first moment that is shown are evaluated, so that its findings are steady at once."""
JUMP_S = 10.0
"""Findings that are so much older than the last look before a moment are not those that led to it."""

Place = tuple[float, int]
"""The time of a moment or a look (epoch seconds), and PyTorch's index of a device."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the screens say about a device at a moment."""

    verdict: Verdict | None
    findings: tuple[Finding, ...]


@dataclass
class Answers:
    """Remembers results for the newest looks of one process; all can be computed again from its timeline."""

    _holders: dict[Place, LookHolders] = field(default_factory=dict)
    _standings: dict[Place, Standings] = field(default_factory=dict)
    _tops: dict[Place, tuple[Holder, ...]] = field(default_factory=dict)
    _last: tuple[tuple[TargetMoment | None, int], Answer] = ((None, 0), Answer(None, ()))

    def at(self, moment: TargetMoment, device: DeviceMoment, timeline: Timeline) -> Answer:
        """The answer at a moment of the timeline."""
        asked, answer = self._last
        if asked[0] is moment and asked[1] == device.index:
            return answer
        shown, counters = self._steady(moment, device, timeline), timeline.counters(device.index, moment.time)
        looks, top = self._looks(moment, device, timeline), self._top(moment, device)
        found = verdict(moment, device, counters, looks, shown, top)
        answer = Answer(in_servers_words(found, moment, device), shown)
        self._last = ((moment, device.index), answer)
        return answer

    def holders(self, moment: TargetMoment, device: DeviceMoment) -> tuple[Holder, ...]:
        """The holders of a moment's look, computed once for each look."""
        key = (moment.look_time, device.index)
        if key not in self._holders:
            self._holders[key] = look_holders(moment, device)
        return self._holders[key][1]

    def _top(self, moment: TargetMoment, device: DeviceMoment) -> tuple[Holder, ...]:
        """The holders in the look at the top of a step, computed once for each such look."""
        if moment.top_look is None:
            return ()
        key = (moment.top_look.time, device.index)
        if key not in self._tops:
            self._tops = {key: holders_at_top(moment, device)}
        return self._tops[key]

    def _steady(self, moment: TargetMoment, device: DeviceMoment, timeline: Timeline) -> tuple[Finding, ...]:
        """The findings to show at a moment, from those of this moment and of earlier ones."""
        times = [time for time, index in self._standings if index == device.index and time <= moment.time]
        before = self._standings[max(times), device.index] if times else Standings()
        looks = timeline.looks(moment.time)[-MOMENTS_BEFORE:]
        if looks and looks[-1].time - before.time > JUMP_S:
            for other in (look for look in looks if look.time > before.time):
                before = self._evaluated(before, other, device.index, timeline)
        is_new_look = moment.look_time > before.look_time
        is_due = is_new_look or moment.time - before.time >= EVALUATED_EVERY_S or moment.ended
        if is_due:
            before = self._evaluated(before, moment, device.index, timeline)
        return before.findings

    def _evaluated(self, before: Standings, moment: TargetMoment, index: int, timeline: Timeline) -> Standings:
        results = findings(moment, index, timeline)
        standings = after(before, results, moment.time, moment.look_time, is_last=moment.ended is not None)
        self._standings[moment.time, index] = standings
        _forget(self._standings)
        return standings

    def _looks(self, moment: TargetMoment, device: DeviceMoment, timeline: Timeline) -> tuple[LookHolders, ...]:
        """The holders of the last looks up to a moment, each look once, oldest first."""
        looks = {}
        for other in (*timeline.looks(moment.time)[-LOOKS_COMPARED:], moment):
            shown = other.device(device.index)
            if shown is None or shown.layout is None:
                continue
            key = (other.look_time, device.index)
            self.holders(other, shown)
            looks[key] = self._holders[key]
        _forget(self._holders)
        return tuple(looks.values())


def _forget(kept: dict[Place, Any]) -> None:
    for old in list(islice(kept, max(0, len(kept) - KEPT))):
        del kept[old]

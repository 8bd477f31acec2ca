"""The verdict and the steady findings about an attached process, computed once for each look and a few seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from gputui.explain.advice import findings
from gputui.explain.advice.holders import Holder
from gputui.explain.steady import Standings, after
from gputui.explain.verdict import LookHolders, Verdict, look_holders, verdict
from gputui.model.finding import Finding
from gputui.model.moment import CounterPoint, DeviceMoment, TargetMoment
from gputui.model.timeline import Timeline

EVALUATED_EVERY_S = 2.0
"""Between looks: counters alone change findings too."""
KEPT = 64
LOOKS_COMPARED = 24
MOMENTS_BEFORE = 6
"""How many looks before a moment are evaluated if the user goes there in one jump."""

Place = tuple[float, int]
"""The time of a moment or of a look (epoch seconds), and PyTorch's index of the device."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the screens say about a device at a moment."""

    verdict: Verdict | None
    findings: tuple[Finding, ...]


@dataclass
class Answers:
    """Remembers the results for the newest looks of one process; all of them follow from its timeline."""

    _holders: dict[Place, LookHolders] = field(default_factory=dict)
    _standings: dict[Place, Standings] = field(default_factory=dict)
    _last: tuple[tuple[TargetMoment | None, int], Answer] = ((None, 0), Answer(None, ()))

    def at(self, moment: TargetMoment, device: DeviceMoment, timeline: Timeline) -> Answer:
        """The answer at a moment of the timeline."""
        asked, answer = self._last
        if asked[0] is moment and asked[1] == device.index:
            return answer
        points, moments = timeline.points, timeline.moments
        shown = self._steady(moment, device, points, moments)
        answer = Answer(verdict(moment, device, points, self._looks(moment, device, moments), shown), shown)
        self._last = ((moment, device.index), answer)
        return answer

    def holders(self, moment: TargetMoment, device: DeviceMoment) -> tuple[Holder, ...]:
        """The holders of a moment's look."""
        key = (moment.look_time, device.index)
        if key not in self._holders:
            self._holders[key] = look_holders(moment, device)
        return self._holders[key][1]

    def _steady(
        self,
        moment: TargetMoment,
        device: DeviceMoment,
        points: Sequence[CounterPoint],
        moments: Sequence[TargetMoment],
    ) -> tuple[Finding, ...]:
        """The findings to show, from those of this moment and of the ones before it."""
        times = [time for time, index in self._standings if index == device.index and time <= moment.time]
        before = Standings()
        if times:
            before = self._standings[max(times), device.index]
        else:
            for other in _looks_before(moment, moments)[-MOMENTS_BEFORE:]:
                before = self._evaluated(before, other, device.index, points, moments)
        is_due = moment.time - before.time >= EVALUATED_EVERY_S or moment.look_time > before.time or moment.ended
        if is_due:
            before = self._evaluated(before, moment, device.index, points, moments)
        return before.findings

    def _evaluated(
        self,
        before: Standings,
        moment: TargetMoment,
        index: int,
        points: Sequence[CounterPoint],
        moments: Sequence[TargetMoment],
    ) -> Standings:
        utilization = next((d.driver.utilization_percent for d in moment.devices if d.index == index), None)
        results = findings(
            moment,
            index,
            points,
            moments,
            workers=moment.host.workers,
            **({} if utilization is None else {"utilization_percent": utilization}),
        )
        standings = after(before, results, moment.time, is_last=moment.ended is not None)
        self._standings[moment.time, index] = standings
        _forget(self._standings)
        return standings

    def _looks(
        self, moment: TargetMoment, device: DeviceMoment, moments: Sequence[TargetMoment]
    ) -> tuple[LookHolders, ...]:
        """The holders of the looks so far, each look once, oldest first."""
        looks = {}
        for other in (*_looks_before(moment, moments)[-LOOKS_COMPARED:], moment):
            shown = next((d for d in other.devices if d.index == device.index and d.layout), None)
            if shown is None or shown.layout is None:
                continue
            key = (other.look_time, device.index)
            self.holders(other, shown)
            looks[key] = self._holders[key]
        _forget(self._holders)
        return tuple(looks.values())


def _looks_before(moment: TargetMoment, moments: Sequence[TargetMoment]) -> list[TargetMoment]:
    """The first moment of each look before this one."""
    firsts = {other.look_time: other for other in reversed(moments) if other.look_time and other.time < moment.time}
    return list(reversed(firsts.values()))


def _forget(kept: dict[Place, Any]) -> None:
    for old in list(islice(kept, max(0, len(kept) - KEPT))):
        del kept[old]

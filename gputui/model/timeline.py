"""An attached process over time: the counters of every moment, and the newest moments whole; in bounded memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import replace

from gputui.model.moment import CounterPoint, TargetMoment
from gputui.model.target import Mark

POINTS = 14_400
"""Four hours of counters at one a second, about a kilobyte each."""

WHOLE_MOMENTS = 120
"""How many moments are kept with their layouts. A layout of ten thousand blocks takes a few megabytes; moments between
two looks share one."""

MARKED_MOMENTS = 40
"""The moments of this many newest marks are kept whole as long as the process is attached."""


class Timeline:
    """Moments so far; times are epoch seconds, ascending."""

    def __init__(self) -> None:
        self._points: deque[CounterPoint] = deque(maxlen=POINTS)
        self._moments: deque[TargetMoment] = deque(maxlen=WHOLE_MOMENTS)
        self._marked: dict[Mark, TargetMoment] = {}
        self.is_rough = False
        """Whether earlier moments lack their looks, right after a jump in a replay."""

    def copy(self) -> Timeline:
        """An independent copy."""
        copied = Timeline()
        copied._points, copied._moments = self._points.copy(), self._moments.copy()
        copied._marked, copied.is_rough = self._marked.copy(), self.is_rough
        return copied

    def add(self, moment: TargetMoment) -> None:
        """Add a moment; one that is not newer than the last is dropped."""
        if self._points and moment.time <= self._points[-1].time:
            return
        counters = tuple(device.statistics for device in moment.devices)
        self._points.append(CounterPoint(moment.time, counters))
        self._moments.append(moment)
        self._keep_marked(moment)

    @property
    def points(self) -> tuple[CounterPoint, ...]:
        """The counters of every moment, oldest first."""
        return tuple(self._points)

    @property
    def moments(self) -> tuple[TargetMoment, ...]:
        """The moments that are kept whole, oldest first."""
        return tuple(self._moments)

    @property
    def marked(self) -> tuple[tuple[Mark, TargetMoment], ...]:
        """The marks, each with the first look after it (or the last before it, if nothing has changed since)."""
        return tuple(self._marked.items())

    @property
    def latest(self) -> TargetMoment | None:
        """The newest moment."""
        return self._moments[-1] if self._moments else None

    def at(self, time: float) -> TargetMoment | None:
        """The last moment not after `time`, without layouts if only its counters were kept."""
        if not self._moments:
            return None
        index = bisect_right(self._moments, time, key=lambda moment: moment.time)
        if index:
            return self._moments[index - 1]
        point = self._points[max(0, bisect_right(self._points, time, key=lambda point: point.time) - 1)]
        return _without_layouts(self._moments[0], point)

    def step(self, time: float, steps: int) -> float:
        """The time of the point `steps` points after `time` (before it, if negative)."""
        index = bisect_left(self._points, time, key=lambda point: point.time)
        return self._points[max(0, min(index + steps, len(self._points) - 1))].time

    def _keep_marked(self, moment: TargetMoment) -> None:
        for mark in moment.marks[-MARKED_MOMENTS:]:
            kept = self._marked.get(mark)
            if kept is None or kept.look_time < mark.time:
                self._marked[mark] = moment
        for old in list(self._marked)[:-MARKED_MOMENTS]:
            del self._marked[old]


def _without_layouts(like: TargetMoment, point: CounterPoint) -> TargetMoment:
    counters = {counted.device: counted for counted in point.statistics}
    devices = tuple(
        replace(device, statistics=counters[device.index], layout=None, bridge=None, room=None)
        for device in like.devices
        if device.index in counters
    )
    return replace(
        like, time=point.time, devices=devices, look_time=0.0, look_cost=None, problems=(), ended=None, look=None
    )

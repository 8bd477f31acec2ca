"""One device's counters over time, up to the time of a moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gputui.model.attached.allocator import AllocatorStatistics
from gputui.model.attached.levels import Highest, Levels
from gputui.model.attached.moment import CounterPoint
from gputui.model.attached.target import Swing

RISING = ("num_ooms", "num_alloc_retries", "generation")
"""The counters whose rises are kept."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A device's counters at a time, and how far its allocated memory rose and fell in the minute before."""

    time: float
    statistics: AllocatorStatistics
    swing: Swing | None = None


class Noted:
    """What is kept of one device's counters: the first ones, the highest reserved memory, and when `RISING` rose."""

    def __init__(self, first: Counted) -> None:
        self.first = first
        self.reserved = Highest()
        self.rises: dict[str, Levels[Counted]] = {name: Levels() for name in RISING}
        self._last = first

    def copy(self) -> Noted:
        """An independent copy."""
        copied = Noted(self.first)
        copied.reserved, copied._last = self.reserved.copy(), self._last
        copied.rises = {name: rises.copy() for name, rises in self.rises.items()}
        return copied

    def add(self, counted: Counted) -> None:
        """Add counters that are newer than all those before."""
        self.reserved.add(counted.time, counted.statistics.reserved_bytes)
        for name, rises in self.rises.items():
            if getattr(counted.statistics, name) > getattr(self._last.statistics, name):
                rises.add(counted)
        self._last = counted


@dataclass(frozen=True, slots=True)
class Counters:
    """One device's counters until `until` (epoch seconds)."""

    device: int
    until: float
    _points: Levels[CounterPoint]
    _noted: Noted | None

    @property
    def first(self) -> Counted | None:
        """The first counters that gputui saw, None if they are later than `until`."""
        return self._noted.first if self._noted and self._noted.first.time <= self.until else None

    def last(self, window_s: float) -> tuple[Counted, ...]:
        """The counters of the last `window_s` seconds; at least the last ones, however old they are."""
        return self._of(self._points.last(window_s, self.until))

    def newest(self, count: int) -> tuple[Counted, ...]:
        """The last `count` counters."""
        return self._of(self._points.newest(count, self.until))

    def at(self, time: float) -> AllocatorStatistics | None:
        """The last counters not after a time."""
        point = self._points.at(min(time, self.until))
        return point.of(self.device) if point else None

    def rises(self, name: str) -> tuple[float, float] | None:
        """When a counter of `RISING` first rose and when it last rose (epoch seconds), None if it never did."""
        rises = self._noted.rises[name] if self._noted else None
        last = rises.at(self.until) if rises else None
        return (rises.first.time, last.time) if rises and rises.first and last else None

    def highest_reserved_bytes(self, since: float) -> int:
        """The highest level of reserved memory since a time, even later than `until`."""
        return self._noted.reserved.since(since) if self._noted else 0

    def per_cell(self, first: int, count: int, span_s: float) -> list[Counted | None]:
        """The last counters in each cell of a graph, even later than `until`; see `Levels.per_cell`."""
        return [self._counted(point) if point else None for point in self._points.per_cell(first, count, span_s)]

    def _of(self, points: Iterable[CounterPoint]) -> tuple[Counted, ...]:
        return tuple(counted for counted in map(self._counted, points) if counted is not None)

    def _counted(self, point: CounterPoint) -> Counted | None:
        statistics = point.of(self.device)
        return Counted(point.time, statistics, point.swing_of(self.device)) if statistics else None

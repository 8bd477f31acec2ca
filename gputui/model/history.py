"""Readings over time in bounded memory: for each series, means over spans of three widths."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from math import isnan, nan

SPANS_S = (2.0, 10.0, 60.0)
"""Width of one point in each resolution; `POINTS` of them are 12 minutes, one hour and six hours."""

POINTS = 360

ALL_DEVICES, HOST = "all devices", "host"
"""Owners of series that belong neither to a device nor to a process."""


class Series:
    """One reading over time, 8 bytes a point.

    Spans start at multiples of their length since the epoch, so a graph moves by whole points and only the newest one
    changes in between.
    """

    __slots__ = ("_count", "_index", "_means", "_span_s", "_total")

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        self._means = array("d")
        """The means of the spans before the newest span, in order; NaN where nothing was read."""
        self._index = -1
        self._total, self._count = 0.0, 0

    def add(self, time: float, value: float) -> None:
        """Add a reading of `time` (epoch seconds); one older than the newest point is dropped."""
        index = int(time / self._span_s)
        if index > self._index:
            self._move_to(index)
        if index == self._index:
            self._total += value
            self._count += 1

    def last(self, count: int, time: float) -> list[float | None]:
        """The means of the last `count` spans up to `time`, oldest first; None where nothing was read."""
        newest = [self._total / self._count] if self._count else []
        behind = self._index - int(time / self._span_s)
        means = self._means[-min(POINTS - 1, count + max(0, behind)) :]
        points = [None if isnan(mean) else mean for mean in (*means, *newest)]
        points = points[: len(points) - behind] if behind > 0 else [*points, *[None] * min(count, -behind)]
        return [*[None] * (count - len(points)), *points[-count:]]

    def _move_to(self, index: int) -> None:
        if self._count:
            unread = min(index - self._index - 1, POINTS)
            self._means.extend((self._total / self._count, *[nan] * unread))
            if len(self._means) >= 2 * POINTS:
                del self._means[:-POINTS]
        self._index, self._total, self._count = index, 0.0, 0


class History:
    """All series, by owner (a device, the host, a process) and name, such as "GPU-..." and "power_w"."""

    def __init__(self) -> None:
        self._series: dict[str, dict[str, tuple[Series, ...]]] = {}
        self.time = 0.0

    def add(self, time: float, owner: str, readings: Iterable[tuple[str, float]]) -> None:
        """Add the current readings of one owner."""
        self.time = max(self.time, time)
        by_name = self._series.setdefault(owner, {})
        for name, value in readings:
            series = by_name.get(name)
            if series is None:
                series = by_name[name] = tuple(Series(span_s) for span_s in SPANS_S)
            for resolution in series:
                resolution.add(time, value)

    def knows(self, owner: str) -> bool:
        """Whether there is any reading of this owner."""
        return owner in self._series

    def last(self, owner: str, name: str, count: int, zoom: int = 0) -> list[float | None]:
        """The last `count` points of a series in resolution `zoom` (index into `SPANS_S`)."""
        series = self._series.get(owner, {}).get(name)
        return series[zoom].last(count, self.time) if series else [None] * count

    def forget(self, owners: set[str]) -> None:
        """Drop every series whose owner is not among `owners`."""
        for owner in self._series.keys() - owners:
            del self._series[owner]

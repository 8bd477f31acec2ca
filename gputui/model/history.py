"""How readings went: for each series, means over fixed spans of time, in a few resolutions, bounded in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

SPANS_S = (2.0, 10.0, 60.0)
"""Width of one point in each resolution: 12 minutes, one hour and six hours fit into `POINTS`."""

POINTS = 360


class Series:
    """One reading over time.

    A point covers a span whose borders are multiples of the span since the epoch, so that a graph moves by whole
    points and only its newest one changes in between.
    """

    __slots__ = ("_points", "_span_s")

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        self._points: deque[tuple[int, float, int]] = deque(maxlen=POINTS)

    def add(self, time: float, value: float) -> None:
        """Take a reading of `time` (epoch seconds) in; one older than the newest point is dropped."""
        index = int(time / self._span_s)
        if self._points and self._points[-1][0] == index:
            _, total, count = self._points.pop()
            self._points.append((index, total + value, count + 1))
        elif not self._points or self._points[-1][0] < index:
            self._points.append((index, value, 1))

    def last(self, count: int, time: float) -> list[float | None]:
        """The means of the last `count` spans up to `time`, oldest first; None where nothing was read."""
        values: list[float | None] = [None] * count
        first = int(time / self._span_s) - count + 1
        for index, total, number in reversed(self._points):
            if index < first:
                break
            if index - first < count:
                values[index - first] = total / number
        return values


class History:
    """All series by name, such as ("GPU-...", "power_w")."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str], tuple[Series, ...]] = {}
        self.time = 0.0

    def add(self, time: float, owner: str, readings: Iterable[tuple[str, float]]) -> None:
        """Take the present readings of one owner (a device, the host, a process) in."""
        self.time = max(self.time, time)
        for name, value in readings:
            series = self._series.get((owner, name))
            if series is None:
                series = self._series[owner, name] = tuple(Series(span_s) for span_s in SPANS_S)
            for resolution in series:
                resolution.add(time, value)

    def last(self, owner: str, name: str, count: int, zoom: int = 0) -> list[float | None]:
        """The last `count` points of a series in resolution `zoom` (index into `SPANS_S`)."""
        series = self._series.get((owner, name))
        return series[zoom].last(count, self.time) if series else [None] * count

    def forget(self, owners: set[str]) -> None:
        """Drop every series whose owner is not among `owners`."""
        self._series = {key: series for key, series in self._series.items() if key[0] in owners}

"""Samples over time in bounded memory, of which each question reads about as many as its answer has, at any age.

All of the newest samples are kept; of older ones the last of each second, of each ten seconds, and so on. Each level
reaches further back than the one before; a sample is in several levels, which share the object.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, Protocol, TypeVar


class Timed(Protocol):
    """An object with a time (epoch seconds)."""

    @property
    def time(self) -> float:
        """Epoch seconds."""
        ...


S = TypeVar("S", bound=Timed)


@dataclass(frozen=True, slots=True)
class Level:
    """The last sample of each `span_s` seconds (0: every sample), `count` samples at most."""

    span_s: float
    count: int


LEVELS = (Level(0.0, 1200), Level(1.0, 1200), Level(10.0, 1440), Level(60.0, 1440), Level(600.0, 1008))
"""The newest 1200 samples, and 20 minutes by the second, 4 hours, a day and a week by longer spans."""


def _time_of(sample: Timed) -> float:
    return sample.time


class Levels(Generic[S]):
    """Samples over time, each newer than the one before."""

    def __init__(self, levels: tuple[Level, ...] = LEVELS) -> None:
        self._kept: tuple[tuple[Level, deque[S]], ...] = tuple((level, deque(maxlen=level.count)) for level in levels)
        self.first: S | None = None
        """The first sample of all, however long ago it was."""

    def copy(self) -> Levels[S]:
        """An independent copy."""
        copied: Levels[S] = Levels(())
        copied.first, copied._kept = self.first, tuple((level, samples.copy()) for level, samples in self._kept)
        return copied

    def add(self, sample: S) -> None:
        """Add a sample, which must be newer than all others."""
        if self.first is None:
            self.first = sample
        for level, samples in self._kept:
            if level.span_s and samples and _span_of(sample, level.span_s) == _span_of(samples[-1], level.span_s):
                samples[-1] = sample
            else:
                samples.append(sample)

    @property
    def latest(self) -> S | None:
        """The newest sample."""
        return self._kept[0][1][-1] if self.first is not None else None

    def at(self, time: float) -> S | None:
        """The last sample not after `time`, as far as it is kept; None if `time` is before the first."""
        before = [samples[place - 1] for _, samples in self._kept if (place := _after(samples, time))]
        if before:
            return max(before, key=_time_of)
        return self.first if self.first is not None and self.first.time <= time else None

    def next(self, time: float) -> S | None:
        """The first sample after `time`."""
        after = [samples[place] for _, samples in self._kept if (place := _after(samples, time)) < len(samples)]
        return min(after, key=_time_of, default=None)

    def before(self, time: float) -> S | None:
        """The last sample before `time`."""
        before = [samples[place - 1] for _, samples in self._kept if (place := _not_before(samples, time))]
        return max(before, key=_time_of, default=None)

    def last(self, window_s: float, until: float) -> tuple[S, ...]:
        """The samples of the last `window_s` seconds until `until`, from the finest level that reaches back so far;
        where there are none in that time, the last sample before it."""
        since = until - window_s
        for level, samples in self._kept:
            if len(samples) < level.count or samples[0].time <= since:
                return self._ending(islice(samples, _not_before(samples, since), _after(samples, until)), until)
        return self._ending((), until)

    def newest(self, count: int, until: float) -> tuple[S, ...]:
        """The last `count` samples until `until`, oldest first, from the finest level that has as many."""
        found: tuple[S, ...] = ()
        for _, samples in self._kept:
            end = _after(samples, until)
            if min(end, count) > len(found):
                found = tuple(islice(samples, max(0, end - count), end))
        return self._ending(found, until)

    def per_cell(self, first: int, count: int, span_s: float) -> list[S | None]:
        """The last sample in each of `count` spans of `span_s` seconds; number `first` begins at `first * span_s`."""
        cells: list[S | None] = [None] * count
        for sample in self._spread(span_s, first * span_s):
            place = _span_of(sample, span_s) - first
            if 0 <= place < count:
                cells[place] = sample
        return cells

    def _ending(self, samples: Iterable[S], until: float) -> tuple[S, ...]:
        """These samples, and the last sample until `until`, which a coarse level may lack."""
        found, last = tuple(samples), self.at(until)
        return (*found, last) if last is not None and last not in found[-1:] else found

    def _spread(self, span_s: float, since: float) -> Iterator[S]:
        """The samples since a time, from the coarsest level whose spans divide `span_s`."""
        fits = [samples for level, samples in self._kept if level.span_s and not span_s % level.span_s]
        samples = fits[-1] if fits else self._kept[0][1]
        return islice(samples, _not_before(samples, since), None)


def _span_of(sample: Timed, span_s: float) -> int:
    return int(sample.time / span_s)


def _after(samples: deque[S], time: float) -> int:
    """How many of the samples are not after `time`."""
    return bisect_right(samples, time, key=_time_of)


def _not_before(samples: deque[S], time: float) -> int:
    """How many of the samples are before `time`."""
    return bisect_left(samples, time, key=_time_of)


class Highest:
    """Tells the highest value since any time of the last week; that time is exact to a minute."""

    KEPT_S = 7 * 86_400.0
    SPAN_S = 60.0

    def __init__(self) -> None:
        self._falling: deque[tuple[float, int]] = deque()
        """(time, value) pairs, each value higher than all that follow; at most one pair in a span of `SPAN_S`."""

    def copy(self) -> Highest:
        """An independent copy."""
        copied = Highest()
        copied._falling = self._falling.copy()
        return copied

    def add(self, time: float, value: int) -> None:
        """Add a value, newer than all others."""
        while self._falling and self._falling[-1][1] <= value:
            self._falling.pop()
        if self._falling and int(self._falling[-1][0] / self.SPAN_S) == int(time / self.SPAN_S):
            self._falling[-1] = (time, self._falling[-1][1])
        else:
            self._falling.append((time, value))
        if self._falling[0][0] < time - self.KEPT_S:
            self._falling.popleft()

    def since(self, time: float) -> int:
        """The highest value since `time`; 0 if there is none."""
        place = bisect_left(self._falling, time, key=lambda pair: pair[0])
        return self._falling[place][1] if place < len(self._falling) else 0

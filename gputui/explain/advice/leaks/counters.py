"""Growth by the counters alone: how fast allocated memory rises beyond the up and down of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import linear_regression, median

from gputui.explain.advice.leaks.thresholds import (
    GROWTH_BYTES,
    JUMP,
    LONGEST_SPAN_S,
    READINGS_PER_WINDOW,
    SHORTEST_SPAN_S,
    SWING_SHARE,
    WINDOWS,
)
from gputui.model.attached.counters import Counters
from gputui.units import format_bytes

Reading = tuple[float, int]
"""Epoch seconds, and allocated bytes."""

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Growth:
    """By how many bytes memory has risen since `since` (epoch seconds), and how fast it rises."""

    since: float
    bytes: int
    bytes_per_s: float

    def full_in_s(self, free_bytes: int) -> float:
        """In how many seconds `free_bytes` will be used up at this rate."""
        return free_bytes / self.bytes_per_s


def growth_in(counters: Counters) -> Growth | None:
    """The growth of a device's allocated memory over the last `LONGEST_SPAN_S`; None if it does not keep rising."""
    return growth_of([(c.time, c.statistics.allocated_bytes) for c in counters.last(LONGEST_SPAN_S)])


def growth_of(readings: Sequence[Reading]) -> Growth | None:
    """The growth over the last `LONGEST_SPAN_S` of readings, oldest first; None if memory does not keep rising.

    Both the lowest and the highest readings of the windows must rise, so that a first step, a longer batch or a phase
    of a step does not count as growth.
    """
    newest = readings[-1][0] if readings else 0.0
    recent = [reading for reading in readings if reading[0] > newest - LONGEST_SPAN_S]
    if len(recent) < WINDOWS * READINGS_PER_WINDOW or newest - recent[0][0] < SHORTEST_SPAN_S:
        return None
    windows = _windows(recent)
    if len(windows) < WINDOWS:
        return None
    lowest = [min(window, key=lambda reading: reading[1]) for window in windows]
    highest = [max(size for _, size in window) for window in windows]
    is_rising = _rises([size for _, size in lowest]) and _rises(highest)
    swing = max(high - low for high, (_, low) in zip(highest, lowest, strict=True))
    lowest = _after_jumps(lowest)
    grown = lowest[-1][1] - lowest[0][1]
    if not is_rising or grown < max(GROWTH_BYTES, SWING_SHARE * swing):
        return None
    slope = linear_regression([time for time, _ in lowest], [size for _, size in lowest]).slope
    return Growth(lowest[0][0], grown, slope) if slope > 0 else None


def _windows(readings: Sequence[Reading]) -> list[list[Reading]]:
    """The readings in `WINDOWS` windows of equal length, without empty windows."""
    start, end = readings[0][0], readings[-1][0]
    windows: list[list[Reading]] = [[] for _ in range(WINDOWS)]
    for reading in readings:
        windows[min(WINDOWS - 1, int(WINDOWS * (reading[0] - start) / (end - start)))].append(reading)
    return [window for window in windows if window]


def _after_jumps(lowest: list[Reading]) -> list[Reading]:
    """The readings after the last jump in the first third, as when a first step allocates the optimizer's states."""
    rises = [later - earlier for (_, earlier), (_, later) in pairwise(lowest)]
    typical = median(rises)
    jumps = [number for number, rise in enumerate(rises[: len(lowest) // 3]) if rise > JUMP * typical > 0]
    return lowest[jumps[-1] + 1 :] if jumps else lowest


def _rises(sizes: Sequence[int]) -> bool:
    """Whether each third of the sizes lies wholly above the third before."""
    third = len(sizes) // 3
    first, middle, last = sizes[:third], sizes[third:-third], sizes[-third:]
    return max(first) < min(middle) and max(middle) < min(last)


def rate_words(bytes_per_s: float) -> str:
    """A rate per second, minute or hour, the shortest in which it is a MiB: "120 MiB a second", "31.0 MiB an hour"."""
    for seconds, unit in ((1, "a second"), (60, "a minute")):
        if bytes_per_s * seconds >= GROWTH_BYTES / 16:
            return f"{format_bytes(bytes_per_s * seconds)} {unit}"
    return f"{format_bytes(bytes_per_s * 3600)} an hour"


def time_left_words(seconds: float) -> str:
    """A time in rounded words: "40 seconds", "7 minutes", "3 hours"; "" beyond two days."""
    if seconds > 2 * DAY_S:
        return ""
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(1, round(seconds / 20)) * 20} seconds"

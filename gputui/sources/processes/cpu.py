"""CPU percentages of processes: since the last look, or, for a single look, the mean over a process's life."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from gputui.model.reading import Reading
from gputui.sources.procfs import SECOND_LOOK
from gputui.sources.procfs_formats import Stat


class MeanShares:
    """The mean over the life of each process, like ps: known at the first look."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock

    def look(self, stats: Iterable[Stat]) -> dict[int, Reading[float]]:
        """Percent of one core by PID; absent for a process that has just started."""
        now = self._clock()
        return {stat.pid: _percent(stat.cpu_s, now - stat.started) for stat in stats}


class CpuShares:
    """Percentages since the last look."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._time = 0.0
        self._last: dict[tuple[int, float], float] = {}

    def look(self, stats: Iterable[Stat]) -> dict[int, Reading[float]]:
        """Percent of one core by PID; absent for a process seen for the first time."""
        now = self._clock()
        seconds, self._time = now - self._time, now
        before, self._last = self._last, {(stat.pid, stat.started): stat.cpu_s for stat in stats}
        return {
            pid: _percent(cpu_s - before[pid, started], seconds) if (pid, started) in before else SECOND_LOOK
            for (pid, started), cpu_s in self._last.items()
        }


def _percent(cpu_s: float, seconds: float) -> Reading[float]:
    return max(0.0, 100.0 * cpu_s / seconds) if seconds > 0 else SECOND_LOOK

"""Memory with shared pages divided among their users (PSS), read seldom, since the kernel walks every page for it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gputui.model.reading import Absent, Reading
from gputui.sources.procfs import ENDED, ProcFs
from gputui.sources.procfs_formats import Rollup, Stat


class _Entry(NamedTuple):
    started: float
    due: float
    rollup: Reading[Rollup]


class Rollups:
    """Reads rollups seldom and keeps them.

    Each process is read again after `interval_s`, or later if reading it took more than `share` of that time. A refresh
    reads the most overdue process first, and no further one once `budget_s` is spent: many processes take many looks.
    """

    def __init__(
        self,
        proc: ProcFs,
        interval_s: float = 10.0,
        share: float = 0.01,
        budget_s: float = 0.002,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._proc, self._interval_s, self._share, self._budget_s = proc, interval_s, share, budget_s
        self._clock = clock
        self._entries: dict[int, _Entry] = {}

    def refresh(self, stats: Iterable[Stat]) -> None:
        """Read those of these processes that are due, and forget all others."""
        start = now = self._clock()
        last, self._entries = self._entries, {}
        due: list[tuple[float, Stat]] = []
        for stat in stats:
            entry = last.get(stat.pid)
            is_known = entry is not None and entry.started == stat.started
            if entry and is_known:
                self._entries[stat.pid] = entry
            if not entry or not is_known or entry.due <= now:
                due.append((entry.due if entry and is_known else -math.inf, stat))
        for _, stat in sorted(due):
            self._entries[stat.pid] = self._read(stat)
            if self._clock() - start > self._budget_s:
                break

    def of(self, stat: Stat) -> Reading[Rollup] | None:
        """The last rollup of a process; None where its turn has not come yet."""
        entry = self._entries.get(stat.pid)
        return entry.rollup if entry and entry.started == stat.started else None

    def _read(self, stat: Stat) -> _Entry:
        before = self._clock()
        try:
            rollup: Reading[Rollup] = self._proc.rollup(stat.pid) or ENDED
        except OSError as error:
            # Permission does not come back: not asked again while the process lives.
            return _Entry(stat.started, math.inf, self._proc.why_unreadable(stat.pid, error))
        now = self._clock()
        return _Entry(stat.started, now + max(self._interval_s, (now - before) / self._share), rollup)


def pss_of(rollup: Reading[Rollup]) -> Reading[int]:
    """The PSS of a rollup."""
    return rollup if isinstance(rollup, Absent) else rollup.pss_bytes

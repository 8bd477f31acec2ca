"""Parents and children of processes, which only a look at all processes shows, and the workers of GPU processes.

Workers are the descendants of a GPU process that are not GPU processes themselves, such as DataLoader workers.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from gputui.model.machine.process import ProcessState, Workers
from gputui.model.reading import Absent, Reading
from gputui.sources.procfs import ProcFs
from gputui.sources.procfs_formats import Rollup, Stat

_NEW_INTERVAL_S = 3.0
_ALL_INTERVAL_S = 30.0
ANCESTORS_AT_MOST = 64
"""Without a limit, a chain of thousands of processes would take time with the square of its length."""


class Family:
    """The parent of every process, kept up to date cheaply.

    A refresh lists /proc and reads only new PIDs. All PIDs are read again every 30 s, to notice what a list of PIDs
    cannot show: a PID that was reused between two lists, a child that init has taken over.
    """

    def __init__(self, proc: ProcFs, clock: Callable[[], float] = time.monotonic) -> None:
        self._proc, self._clock = proc, clock
        self._parents: dict[int, int] = {}
        self._children: dict[int, list[int]] = {}
        self._next_new = self._next_all = -1.0

    def refresh(self, *, now: bool = False) -> bool:
        """Update the parents if that is due, or at once with `now`; returns whether they were updated."""
        time_s = self._clock()
        if not now and time_s < self._next_new:
            return False
        self._next_new = time_s + _NEW_INTERVAL_S
        try:
            pids = self._proc.pids()
        except OSError:  # gputui is out of file descriptors, or /proc is not mounted: the parents stay as they were
            return False
        known = self._parents
        if time_s >= self._next_all:
            known, self._next_all = {}, time_s + _ALL_INTERVAL_S
        self._parents = dict(self._look(pids, known))
        self._children = defaultdict(list)
        for pid, parent in self._parents.items():
            self._children[parent].append(pid)
        return True

    def _look(self, pids: list[int], known: dict[int, int]) -> Iterator[tuple[int, int]]:
        for pid in pids:
            parent = known.get(pid)
            if parent is None:
                stat = self._proc.stat(pid)
                parent = stat.parent_pid if stat else None
            if parent is not None:
                yield pid, parent

    def __contains__(self, pid: int) -> bool:
        return pid in self._parents

    def ancestors(self, pid: int) -> Iterator[int]:
        """From the parent up to init, at most `ANCESTORS_AT_MOST`."""
        seen = {pid}
        while (pid := self._parents.get(pid, 0)) and pid not in seen and len(seen) <= ANCESTORS_AT_MOST:
            seen.add(pid)
            yield pid

    def descendants(self, pid: int, stop: Container[int] = ()) -> Iterator[tuple[int, int]]:
        """(PID, depth below `pid`) of the descendants, parents before children, without `stop` and what is below."""
        seen = {pid}  # parents read at different moments can form a ring, where a PID was used again in between
        rest = [(child, 1) for child in reversed(self._children.get(pid, ()))]
        while rest:
            child, depth = rest.pop()
            if child not in stop and child not in seen:
                seen.add(child)
                yield child, depth
                rest += [(grandchild, depth + 1) for grandchild in reversed(self._children.get(child, ()))]


class WorkerPids:
    """The workers of each GPU process, kept until the family is read again or the GPU processes change."""

    def __init__(self, proc: ProcFs, family: Family) -> None:
        self._proc, self._family = proc, family
        self._pids: dict[int, tuple[int, ...]] = {}

    def refresh(self, gpu_pids: frozenset[int], *, relation_is_new: bool) -> None:
        """Find the workers of each GPU process, without those of another GPU process below it."""
        if relation_is_new or gpu_pids != self._pids.keys():
            self._pids = {
                pid: tuple(worker for worker, _ in self._family.descendants(pid, stop=gpu_pids)) for pid in gpu_pids
            }

    def stats(self) -> dict[int, list[Stat]]:
        """The workers of each GPU process as they are now, without those that have ended."""
        looks = {pid: [self._proc.stat(worker) for worker in workers] for pid, workers in self._pids.items() if workers}
        return {
            pid: alive
            for pid, stats in looks.items()
            if (alive := [stat for stat in stats if stat and stat.state is not ProcessState.ZOMBIE])
        }


def sum_of(
    stats: Sequence[Stat], cpu: Mapping[int, Reading[float]], rollups: Mapping[int, Reading[Rollup] | None]
) -> Workers:
    """The cost of these workers together; their memory is PSS where that has been read, RSS otherwise."""
    proportional = [rollup.pss_bytes for rollup in map(rollups.get, _pids(stats)) if isinstance(rollup, Rollup)]
    resident = sum(stat.rss_bytes for stat in stats if not isinstance(rollups.get(stat.pid), Rollup))
    return Workers(
        count=len(stats),
        cpu_percent=sum(percent for percent in map(cpu.__getitem__, _pids(stats)) if not isinstance(percent, Absent)),
        resident_bytes=sum(proportional) + resident,
        is_proportional=len(proportional) == len(stats),
        running=sum(stat.state is ProcessState.RUNNING for stat in stats),
        on_disk=sum(stat.state is ProcessState.WAITING_FOR_IO for stat in stats),
    )


def _pids(stats: Sequence[Stat]) -> list[int]:
    return [stat.pid for stat in stats]

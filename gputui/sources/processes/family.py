"""Parents and children of processes: the one thing that needs a look at all of them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Container, Iterator

from gputui.sources.procfs import ProcFs

_NEW_INTERVAL_S = 3.0
_ALL_INTERVAL_S = 30.0


class Family:
    """The parent of every process, kept up to date cheaply.

    A refresh lists /proc and reads only new PIDs; all are read again every 30 s, which catches what a list of PIDs
    cannot show: a PID reused between two lists, a child inherited by init.
    """

    def __init__(self, proc: ProcFs, clock: Callable[[], float] = time.monotonic) -> None:
        self._proc, self._clock = proc, clock
        self._parents: dict[int, int] = {}
        self._children: dict[int, list[int]] = {}
        self._next_new = self._next_all = -1.0

    def refresh(self, *, now: bool = False) -> bool:
        """Update the parents if that is due, or `now`; returns whether it was done."""
        time_s = self._clock()
        if not now and time_s < self._next_new:
            return False
        known = self._parents
        if time_s >= self._next_all:
            known, self._next_all = {}, time_s + _ALL_INTERVAL_S
        self._next_new = time_s + _NEW_INTERVAL_S
        self._parents = dict(self._look(known))
        self._children = defaultdict(list)
        for pid, parent in self._parents.items():
            self._children[parent].append(pid)
        return True

    def _look(self, known: dict[int, int]) -> Iterator[tuple[int, int]]:
        for pid in self._proc.pids():
            parent = known.get(pid)
            if parent is None:
                stat = self._proc.stat(pid)
                parent = stat.parent_pid if stat else None
            if parent is not None:
                yield pid, parent

    def __contains__(self, pid: int) -> bool:
        return pid in self._parents

    def ancestors(self, pid: int) -> Iterator[int]:
        """From the parent up to init."""
        seen = {pid}
        while (pid := self._parents.get(pid, 0)) and pid not in seen:
            seen.add(pid)
            yield pid

    def descendants(self, pid: int, stop: Container[int] = ()) -> Iterator[tuple[int, int]]:
        """(PID, depth below `pid`) of all below it, parents before their children; none of `stop` nor below them."""
        rest = [(child, 1) for child in reversed(self._children.get(pid, ()))]
        while rest:
            child, depth = rest.pop()
            if child not in stop:
                yield child, depth
                rest += [(grandchild, depth + 1) for grandchild in reversed(self._children.get(child, ()))]

"""Ranks of a distributed job, grouped by the launcher that started them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from gputui.model.process import Rank
from gputui.sources.processes.facts import JobPlace, is_launcher
from gputui.sources.processes.family import Family
from gputui.sources.procfs import ProcFs


class Ranks:
    """Finds the launchers; remembers which ancestors are some until the relation is read again."""

    def __init__(self, proc: ProcFs, family: Family) -> None:
        self._proc, self._family = proc, family
        self._is_launcher: dict[int, bool] = {}

    def forget(self) -> None:
        """PIDs may mean other processes now."""
        self._is_launcher.clear()

    def of(self, places: Mapping[int, JobPlace], parents: Mapping[int, int]) -> dict[int, Rank]:
        """The rank of each process that has a place in a job, by PID; `parents` are the parents of those."""
        places = {pid: place for pid, place in places.items() if not self._inherits(pid, place, places)}
        ranks_below = Counter(parents[pid] for pid in places)
        ranks = {}
        for pid, place in places.items():
            parent = parents[pid]
            launcher = self._launcher(pid, places)
            if launcher is None and ranks_below[parent] > 1:
                launcher = parent
            ranks[pid] = Rank(place.rank, place.world_size, place.local_rank, launcher)
        return ranks

    def _inherits(self, pid: int, place: JobPlace, places: Mapping[int, JobPlace]) -> bool:
        """Whether it is a child of that rank, with the rank's variables, and no rank itself."""
        return any(places.get(ancestor) == place for ancestor in self._family.ancestors(pid))

    def _launcher(self, pid: int, places: Mapping[int, JobPlace]) -> int | None:
        ancestors = (ancestor for ancestor in self._family.ancestors(pid) if ancestor not in places)
        return next((ancestor for ancestor in ancestors if self._launches(ancestor)), None)

    def _launches(self, pid: int) -> bool:
        if pid not in self._is_launcher:
            try:
                self._is_launcher[pid] = is_launcher(self._proc.arguments(pid))
            except OSError:  # hidden or gone: it cannot be known to be one
                self._is_launcher[pid] = False
        return self._is_launcher[pid]

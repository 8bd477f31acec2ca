"""Workers: the descendants of a GPU process that are not GPU processes themselves, summed up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gputui.model.process import ProcessState, Workers
from gputui.model.reading import Absent, Reading
from gputui.sources.processes.family import Family
from gputui.sources.procfs import ProcFs, Rollup, Stat


class WorkerPids:
    """The workers of each GPU process, kept until the family is read again or the GPU processes change."""

    def __init__(self, proc: ProcFs, family: Family) -> None:
        self._proc, self._family = proc, family
        self._pids: dict[int, tuple[int, ...]] = {}

    def refresh(self, gpu_pids: frozenset[int], *, relation_is_new: bool) -> None:
        """Find the descendants of each; those of a GPU process below another belong to the lower one."""
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
    """The cost of these workers together: PSS where it has been read, RSS otherwise."""
    proportional = [rollup.pss_bytes for rollup in map(rollups.get, _pids(stats)) if isinstance(rollup, Rollup)]
    resident = sum(stat.rss_bytes for stat in stats if not isinstance(rollups.get(stat.pid), Rollup))
    return Workers(
        count=len(stats),
        cpu_percent=sum(percent for percent in map(cpu.__getitem__, _pids(stats)) if not isinstance(percent, Absent)),
        resident_bytes=sum(proportional) + resident,
        is_proportional=len(proportional) == len(stats),
    )


def _pids(stats: Sequence[Stat]) -> list[int]:
    return [stat.pid for stat in stats]

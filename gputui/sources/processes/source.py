"""The process source: joins what NVML and the host know about each PID."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gputui.model.device import DeviceLook, DeviceUse
from gputui.model.process import Identity, Process, ProcessDetails, ProcessLook, ProcessState, Rank
from gputui.model.reading import NOT_READ, Absent, Reading
from gputui.sources.processes.cpu import CpuShares, Shares
from gputui.sources.processes.descriptions import Description, Descriptions
from gputui.sources.processes.family import Family, WorkerPids, sum_of
from gputui.sources.processes.namespace import Namespace, Strangers
from gputui.sources.processes.ranks import Ranks
from gputui.sources.processes.rollups import Rollups, pss_of
from gputui.sources.processes.unattributed import unattributed
from gputui.sources.procfs import EMPTY, ENDED, MOUNT, ProcFs
from gputui.sources.procfs_formats import Rollup, Stat

if TYPE_CHECKING:
    from gputui.sources.processes.details import DetailsReader

_MISSING = {
    ProcessState.VANISHED: ENDED,
    ProcessState.HIDDEN: Absent("hidden: /proc is mounted with hidepid"),
    ProcessState.ELSEWHERE: Absent("a process outside this PID namespace"),
}
"""Why nothing is known about a PID that is not visible here."""


class _HostLook(NamedTuple):
    """What the host knows about the GPU processes and their workers at one look."""

    stats: Mapping[int, Stat]
    descriptions: Mapping[int, Description]
    cpu: Mapping[int, Reading[float]]
    workers: Mapping[int, list[Stat]]
    rollups: Mapping[int, Reading[Rollup] | None]
    ranks: Mapping[int, Rank]
    pids_with_probes: frozenset[int]


class ProcessSource:
    """Reads processes about once a second, from one thread; keeps what does not change and what rates need.

    `pids_with_probes` is called at every look and must be cheap. `cpu` computes CPU percentages, by default
    of the time since the last look. `in_private_namespace` overrides what `/proc/self/ns/pid` says.
    """

    def __init__(
        self,
        proc: str | os.PathLike[str] = "/proc",
        pids_with_probes: Callable[[], frozenset[int]] = frozenset,
        *,
        cpu: Shares | None = None,
        in_private_namespace: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._proc = ProcFs(proc)
        self._pids_with_probes = pids_with_probes
        self._namespace = Namespace(self._proc, private=in_private_namespace)
        self._family = Family(self._proc, clock)
        self._descriptions = Descriptions(self._proc, clock)
        self._cpu = cpu or CpuShares(clock)
        self._workers = WorkerPids(self._proc, self._family)
        self._rollups = Rollups(self._proc)
        self._ranks = Ranks(self._proc, self._family)
        self._clock = clock
        self._details: DetailsReader | None = None
        self._last: dict[int, Process] = {}

    def read(self, devices: DeviceLook) -> ProcessLook:
        """One process for each PID that NVML reports, in its order, and the memory that none accounts for."""
        uses: dict[int, list[DeviceUse]] = defaultdict(list)
        for use in devices.uses:
            uses[use.pid].append(use)
        readings = {pid: self._proc.read_stat(pid) for pid in uses}
        unreadable = {pid: stat for pid, stat in readings.items() if isinstance(stat, Absent)}
        named = {pid: stat for pid, stat in readings.items() if not isinstance(stat, Absent)}
        strangers = self._namespace.strangers(named)
        here = {pid: stat for pid, stat in named.items() if stat and pid not in strangers.pids}
        look = self._look_at_host(here)
        processes = tuple(
            self._present(here[pid], tuple(held), look)
            if pid in here
            else self._missing(pid, tuple(held), strangers, unreadable.get(pid))
            for pid, held in uses.items()
        )
        self._last = {process.pid: process for process in processes}
        return ProcessLook(
            processes=processes,
            unattributed=unattributed(devices, processes, is_private=self._namespace.private),
            problem=f"{EMPTY} {MOUNT}" if self._proc.is_empty else _problem(processes),
        )

    def details(self, identity: Identity) -> ProcessDetails:
        """Everything about one process; rates and CPU are absent at the first call for it."""
        if self._details is None:
            from gputui.sources.processes.details import DetailsReader

            self._details = DetailsReader(self._proc, self._clock)
        return self._details.read(identity)

    def _look_at_host(self, here: Mapping[int, Stat]) -> _HostLook:
        is_new = bool(here) and self._family.refresh(now=not here.keys() <= self._last.keys())
        if is_new:
            self._ranks.forget()
        self._workers.refresh(frozenset(here), relation_is_new=is_new)
        workers = self._workers.stats()
        members = [stat for stats in workers.values() for stat in stats]
        families = [*(here[pid] for pid in workers), *members]
        self._rollups.refresh(families)
        descriptions = self._descriptions.look(here.values())
        places = {pid: description.place for pid, description in descriptions.items() if description.place}
        return _HostLook(
            stats=here,
            descriptions=descriptions,
            cpu=self._cpu.look([*here.values(), *members]),
            workers=workers,
            rollups={stat.pid: self._rollups.of(stat) for stat in families},
            ranks=self._ranks.of(places, {pid: here[pid].parent_pid for pid in places}),
            pids_with_probes=self._pids_with_probes(),
        )

    def _present(self, stat: Stat, uses: tuple[DeviceUse, ...], look: _HostLook) -> Process:
        pid, workers = stat.pid, look.workers.get(stat.pid)
        description = look.descriptions[pid]
        rollup = look.rollups.get(pid)
        return Process(
            identity=Identity(pid, stat.started),
            state=stat.state,
            uses=uses,
            parent_pid=stat.parent_pid,
            user=description.user,
            command=description.command,
            cpu_percent=look.cpu[pid],
            rss_bytes=stat.rss_bytes,
            pss_bytes=NOT_READ if rollup is None else pss_of(rollup),
            workers=sum_of(workers, look.cpu, look.rollups) if workers else None,
            rank=look.ranks.get(pid),
            has_probe=pid in look.pids_with_probes,
        )

    def _missing(
        self, pid: int, uses: tuple[DeviceUse, ...], strangers: Strangers, unreadable: Absent | None
    ) -> Process:
        """A PID that is not visible here; one that was visible keeps its identity, user and command."""
        last = self._last.get(pid)
        was_here = last is not None and last.identity.started is not None
        if unreadable is not None:
            state = ProcessState.UNREADABLE
        elif pid in strangers.pids:
            state = ProcessState.ELSEWHERE
        elif self._proc.is_hidden(pid):
            state = ProcessState.HIDDEN
        elif strangers.missing_are and not was_here:
            state = ProcessState.ELSEWHERE
        else:
            state = ProcessState.VANISHED
        why = unreadable or _MISSING[state]
        is_known = last is not None and state in (ProcessState.VANISHED, ProcessState.UNREADABLE)
        return Process(
            identity=last.identity if last and is_known else Identity(pid, None),
            state=state,
            uses=uses,
            user=last.user if last and is_known else why,
            command=last.command if last and is_known else why,
            cpu_percent=why,
            rss_bytes=why,
            pss_bytes=why,
        )


def _problem(processes: tuple[Process, ...]) -> str | None:
    count = sum(process.state is ProcessState.ELSEWHERE for process in processes)
    if not count:
        return None
    they = "1 process on the devices is" if count == 1 else f"{count} processes on the devices are"
    return (
        f"{they} outside this container: NVML reports the host's PIDs, which mean nothing in the container's "
        "own PID namespace. Start the container with --pid=host (Kubernetes: hostPID: true)."
    )

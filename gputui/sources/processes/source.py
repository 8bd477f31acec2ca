"""The process source: joins what NVML and the host know about each PID."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gputui.model.machine.device import Device, DeviceLook, DeviceUse
from gputui.model.machine.owner import Owner
from gputui.model.machine.process import Identity, Process, ProcessDetails, ProcessLook, ProcessState, Rank
from gputui.model.reading import NOT_READ, Absent, Reading
from gputui.sources.processes.cpu import CpuShares, MeanShares
from gputui.sources.processes.descriptions import Description, Descriptions
from gputui.sources.processes.family import Family, WorkerPids, sum_of
from gputui.sources.processes.namespace import Namespace, Strangers
from gputui.sources.processes.orphans import Orphans
from gputui.sources.processes.ranks import Ranks, Servers
from gputui.sources.processes.rollups import Rollups, pss_of
from gputui.sources.processes.unattributed import unattributed
from gputui.sources.procfs import EMPTY, ENDED, MOUNT, ProcFs
from gputui.sources.procfs_formats import Rollup, Stat

if TYPE_CHECKING:
    from gputui.sources.owners import Owners, Subject
    from gputui.sources.processes.details import DetailsReader

_MISSING = {
    ProcessState.VANISHED: ENDED,
    ProcessState.HIDDEN: Absent("hidden: /proc is mounted with hidepid"),
    ProcessState.ELSEWHERE: Absent("a process outside this PID namespace"),
    ProcessState.CONTAINED: Absent("NVML does not say which process it is"),
}
"""Why nothing is known about a PID that is not visible here."""


_OUTSIDE = {
    ProcessState.ELSEWHERE: "outside this container: NVML reports the host's PIDs, which mean nothing in the "
    "container's own PID namespace. Start the container with --pid=host (Kubernetes: hostPID: true).",
    ProcessState.CONTAINED: "in another container: NVML gives PID 0 for what has no PID here. On the host, or in a "
    "container with --pid=host (Kubernetes: hostPID: true), they have one.",
}
"""Where processes are of which little is known, and what helps."""


_READINGS = tuple(name for name, value in Process._field_defaults.items() if value is NOT_READ)


class _HostLook(NamedTuple):
    """What the host knows about the GPU processes and their workers at one look."""

    stats: Mapping[int, Stat]
    descriptions: Mapping[int, Description]
    cpu: Mapping[int, Reading[float]]
    workers: Mapping[int, list[Stat]]
    rollups: Mapping[int, Reading[Rollup] | None]
    ranks: Mapping[int, Rank]
    servers: Mapping[int, int]
    pids_with_probes: frozenset[int]
    owners: Mapping[int, Reading[Owner]]


class ProcessSource:
    """Reads processes about once a second, from one thread; keeps what does not change and what rates need.

    `pids_with_probes` is called at every look and must be cheap. `cpu` computes CPU percentages, None: those since the
    last look. `in_private_namespace` overrides what `/proc/self/ns/pid` says.
    """

    def __init__(
        self,
        proc: str | os.PathLike[str] = "/proc",
        pids_with_probes: Callable[[], frozenset[int]] = frozenset,
        *,
        cpu: CpuShares | MeanShares | None = None,
        in_private_namespace: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._proc = ProcFs(proc)
        self._pids_with_probes = pids_with_probes
        self._namespace = Namespace(self._proc, private=in_private_namespace)
        self._family = Family(self._proc, clock)
        self._descriptions = Descriptions(self._proc, clock)
        self._cpu = cpu or CpuShares(clock)
        self._owners: Owners | None = None
        self._workers = WorkerPids(self._proc, self._family)
        self._rollups = Rollups(self._proc)
        self._ranks = Ranks(self._proc, self._family)
        self._servers = Servers(self._proc, self._family)
        self._orphans = Orphans(self._proc)
        self._clock = clock
        self._details: DetailsReader | None = None
        self._last: dict[int, Process] = {}

    def read(self, devices: DeviceLook) -> ProcessLook:
        """One process for each PID that NVML reports, in its order, and the memory that none accounts for."""
        uses: dict[int, list[DeviceUse]] = defaultdict(list)
        nameless = [use for use in devices.uses if not use.pid]
        for use in devices.uses:
            if use.pid:
                uses[use.pid].append(use)
        readings = {pid: self._proc.read_stat(pid) for pid in uses}
        unreadable = {pid: stat for pid, stat in readings.items() if isinstance(stat, Absent)}
        named = {pid: stat for pid, stat in readings.items() if not isinstance(stat, Absent)}
        strangers = self._namespace.strangers(named)
        here = {pid: stat for pid, stat in named.items() if stat and pid not in strangers.pids}
        look = self._look_at_host(here, uses, devices)
        processes = tuple(
            self._present(here[pid], tuple(held), look)
            if pid in here
            else self._missing(pid, tuple(held), strangers, unreadable.get(pid))
            for pid, held in uses.items()
        )
        self._last = {process.pid: process for process in processes}
        processes += tuple(_contained(number, use) for number, use in enumerate(nameless))
        return ProcessLook(
            processes=processes,
            unattributed=unattributed(devices, processes, is_private=self._namespace.private),
            problem=f"{EMPTY} {MOUNT}" if self._proc.is_empty else _problem(processes),
        )

    def watch_owners(self, patience_s: float = 0.0) -> None:
        """From the next look on, read owners, too; `patience_s` is how long all looks together wait for them."""
        from gputui.sources.owners import Owners

        self._owners = Owners(self._proc, patience_s)

    def details(self, identity: Identity) -> ProcessDetails:
        """Everything about one process; rates and CPU are absent at the first call for it."""
        if self._details is None:
            from gputui.sources.processes.details import DetailsReader

            self._details = DetailsReader(self._proc, self._clock)
        return self._details.read(identity)

    def _look_at_host(
        self, here: Mapping[int, Stat], uses: Mapping[int, list[DeviceUse]], devices: DeviceLook
    ) -> _HostLook:
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
            servers=self._servers.of({pid: description.command for pid, description in descriptions.items()}),
            pids_with_probes=self._pids_with_probes(),
            owners=self._owners.look(_subjects(here, descriptions, uses, devices)) if self._owners else {},
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
            server_pid=look.servers.get(pid),
            has_probe=pid in look.pids_with_probes,
            owner=look.owners.get(pid, NOT_READ),
            is_orphan=self._orphans.has(stat, is_rank=pid in look.ranks),
        )

    def _missing(
        self, pid: int, uses: tuple[DeviceUse, ...], strangers: Strangers, unreadable: Absent | None
    ) -> Process:
        """A process that is not visible here; if it was visible before, it keeps its identity, user and command."""
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
        process = _without_readings(Identity(pid, None), state, uses, why)
        if last is None or state not in (ProcessState.VANISHED, ProcessState.UNREADABLE):
            return process
        return process._replace(identity=last.identity, user=last.user, command=last.command, owner=last.owner)


def _subjects(
    here: Mapping[int, Stat],
    descriptions: Mapping[int, Description],
    uses: Mapping[int, list[DeviceUse]],
    devices: DeviceLook,
) -> Iterator[Subject]:
    """The processes as subjects for `Owners.look`."""
    from gputui.sources.owners import Subject

    names = {device.key: _names_on_node(device) for device in devices.devices}
    for pid, stat in here.items():
        on = tuple(name for use in uses[pid] for name in names.get(use.device, ()))
        yield Subject(pid, stat.started, stat.name, descriptions[pid].uid, on)


def _names_on_node(device: Device) -> tuple[str, ...]:
    """The names by which files on the node may refer to a device."""
    place = device.mig
    return (device.key, f"{place.parent}.{place.gpu_instance}" if place else str(device.index))


def _contained(number: int, use: DeviceUse) -> Process:
    """A process that NVML lists under PID 0."""
    state = ProcessState.CONTAINED
    return _without_readings(Identity(0, None, number), state, (use,), _MISSING[state])


def _without_readings(identity: Identity, state: ProcessState, uses: tuple[DeviceUse, ...], why: Absent) -> Process:
    readings: dict[str, Any] = dict.fromkeys(_READINGS, why)
    return Process(identity, state, uses, **readings)


def _problem(processes: tuple[Process, ...]) -> str | None:
    for state, why in _OUTSIDE.items():
        count = sum(process.state is state for process in processes)
        if count:
            they = "1 process on the devices is" if count == 1 else f"{count} processes on the devices are"
            return f"{they} {why}"
    return None

"""Everything about one process: its tree, its environment, its memory, what it waits for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from gputui.model.machine.process import Identity, ProcessDetails, TreeEntry
from gputui.model.reading import NOT_READ, Absent, Reading
from gputui.sources.processes.cpu import CpuShares
from gputui.sources.processes.descriptions import command
from gputui.sources.processes.family import Family
from gputui.sources.processes.rollups import Rollups
from gputui.sources.processes.waiting import waiting_for
from gputui.sources.procfs import DETAIL_BYTES, ENDED, NOT_OFFERED, SECOND_LOOK, ProcFs
from gputui.sources.procfs_formats import Rollup, Stat, StorageTraffic

T = TypeVar("T")

DESCENDANTS_AT_MOST = 500
"""How many descendants are shown: each is read at every look."""


class _TrafficAt(NamedTuple):
    """The storage traffic of a process so far, at a moment of the clock."""

    identity: Identity
    time_s: float
    traffic: StorageTraffic


class DetailsReader:
    """Reads the details of one process at a time, the one on screen."""

    def __init__(self, proc: ProcFs, clock: Callable[[], float] = time.monotonic) -> None:
        self._proc, self._clock = proc, clock
        self._family = Family(proc, clock)
        self._cpu = CpuShares(clock)
        # On screen now: every two seconds, taking up to a twentieth of the time.
        self._rollups = Rollups(proc, interval_s=2.0, share=0.05)
        self._commands: dict[tuple[int, float, str], str] = {}
        self._traffic: _TrafficAt | None = None

    def read(self, identity: Identity) -> ProcessDetails:
        """The process now; if it is gone, or another process has its PID, every field is absent with the reason."""
        pid, stat = identity.pid, self._proc.read_stat(identity.pid)
        if isinstance(stat, Absent):
            return without_process(identity, stat)
        if stat is None or stat.started != identity.started:
            return without_process(identity, self._why_not_here(identity, stat))
        memory = self._memory(stat)
        tree, unshown = self._tree(stat)
        read_rate, write_rate = self._io_rates(identity)
        return ProcessDetails(
            identity=identity,
            tree=tree,
            unshown_descendants=unshown,
            environment=self._try(pid, lambda: tuple(self._proc.environment(pid))),
            working_directory=self._try(pid, lambda: self._proc.link(pid, "cwd")),
            executable=self._try(pid, lambda: self._proc.link(pid, "exe")),
            command_line=self._try(pid, lambda: self._proc.arguments(pid, DETAIL_BYTES)),
            waiting_for=waiting_for(self._proc, stat),
            threads=stat.threads,
            open_files=self._try(pid, lambda: self._proc.open_files(pid)),
            pss_bytes=memory if isinstance(memory, Absent) else memory.pss_bytes,
            shared_bytes=memory if isinstance(memory, Absent) else memory.shared_bytes,
            swap_bytes=memory if isinstance(memory, Absent) else memory.swap_bytes,
            read_bytes_per_s=read_rate,
            write_bytes_per_s=write_rate,
        )

    def _why_not_here(self, identity: Identity, stat: Stat | None) -> Absent:
        if identity.started is None:
            return Absent("a process of another PID namespace, or one that ended before it was seen")
        if stat is not None:
            return Absent("the process has ended, and its PID is another process now")
        return Absent("hidden: /proc is mounted with hidepid") if self._proc.is_hidden(identity.pid) else ENDED

    def _try(self, pid: int, read: Callable[[], Reading[T]]) -> Reading[T]:
        try:
            return read()
        except OSError as error:
            return self._proc.why_unreadable(pid, error)

    def _memory(self, stat: Stat) -> Reading[Rollup]:
        self._rollups.refresh([stat])
        return self._rollups.of(stat) or NOT_READ

    def _io_rates(self, identity: Identity) -> tuple[Reading[float], Reading[float]]:
        traffic = self._try(identity.pid, lambda: self._proc.storage_traffic(identity.pid) or NOT_OFFERED)
        if isinstance(traffic, Absent):
            return traffic, traffic
        now = _TrafficAt(identity, self._clock(), traffic)
        before, self._traffic = self._traffic, now
        if before is None or before.identity != identity:
            return SECOND_LOOK, SECOND_LOOK
        seconds = now.time_s - before.time_s
        if seconds <= 0:
            return SECOND_LOOK, SECOND_LOOK
        return (
            (traffic.read_bytes - before.traffic.read_bytes) / seconds,
            (traffic.written_bytes - before.traffic.written_bytes) / seconds,
        )

    def _tree(self, stat: Stat) -> tuple[tuple[TreeEntry, ...], int]:
        """The tree with ancestors and descendants, and how many descendants it leaves out."""
        self._family.refresh(now=stat.pid not in self._family)
        ancestors = [ancestor for pid in self._family.ancestors(stat.pid) if (ancestor := self._proc.stat(pid))]
        descendants = list(self._family.descendants(stat.pid))
        places = [(ancestor, depth) for depth, ancestor in enumerate(reversed(ancestors))]
        places.append((stat, len(ancestors)))
        for pid, depth in descendants[:DESCENDANTS_AT_MOST]:
            if descendant := self._proc.stat(pid):
                places.append((descendant, len(ancestors) + depth))
        cpu = self._cpu.look([member for member, _ in places])
        last, self._commands = self._commands, {}
        entries = tuple(self._entry(member, depth, cpu, last) for member, depth in places)
        return entries, max(0, len(descendants) - DESCENDANTS_AT_MOST)

    def _entry(
        self, stat: Stat, depth: int, cpu: Mapping[int, Reading[float]], last: Mapping[tuple[int, float, str], str]
    ) -> TreeEntry:
        key = (stat.pid, stat.started, stat.name)
        if key not in self._commands:
            self._commands[key] = last.get(key) or self._command(stat)
        return TreeEntry(
            identity=Identity(stat.pid, stat.started),
            depth=depth,
            state=stat.state,
            command=self._commands[key],
            cpu_percent=cpu[stat.pid],
            rss_bytes=stat.rss_bytes,
            threads=stat.threads,
        )

    def _command(self, stat: Stat) -> str:
        text = command(self._proc, stat)
        return f"[{stat.name}]" if isinstance(text, Absent) else text


_READINGS = tuple(name for name, value in ProcessDetails._field_defaults.items() if value is NOT_READ)


def without_process(identity: Identity, why: Absent) -> ProcessDetails:
    """The details of a process that is gone: every reading is absent."""
    readings: dict[str, Any] = dict.fromkeys(_READINGS, why)
    return ProcessDetails(identity, **readings)

"""Processes on devices: who they are on the host, joined with what NVML says they hold."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from gputui.model.device import DeviceUse
from gputui.model.reading import NOT_READ, Reading


class ProcessState(str, Enum):
    """What the host knows about a PID that NVML named."""

    RUNNING = "running"
    SLEEPING = "sleeping"
    WAITING_FOR_IO = "waiting for I/O"
    STOPPED = "stopped"
    ZOMBIE = "zombie"
    VANISHED = "vanished"
    """The PID was here, or could have been, and is gone."""
    HIDDEN = "hidden from this user"
    """The PID is here, and /proc (mounted with hidepid) does not show it."""
    ELSEWHERE = "in another PID namespace"
    """NVML reports the host's PIDs and this monitor lives in a container: the PID means nothing here."""


class Identity(NamedTuple):
    """What keeps one process apart from another that got its PID later: the PID and when it started (epoch seconds)."""

    pid: int
    started: float | None


class Workers(NamedTuple):
    """What a process's children (DataLoader workers and the like) cost the host, shared pages counted once.

    `resident_bytes` is the sum of PSS where it can be read (`is_proportional`), of RSS where not.
    """

    count: int  # type: ignore[assignment]  # in place of a method of tuples
    cpu_percent: float
    resident_bytes: int
    is_proportional: bool


class Rank(NamedTuple):
    """A process's place in a distributed job, from its environment; `launcher_pid` is the torchrun it belongs to."""

    rank: int
    world_size: int
    local_rank: int | None
    launcher_pid: int | None


class Process(NamedTuple):
    """One process and all it holds on devices.

    `cpu_percent` is of one core since the last look and absent at the first. `rss_bytes` is its own resident memory.
    `pss_bytes` is the same with shared pages shared out, read (seldom: it is dear) only where there are workers:
    with theirs it adds up to what the family costs the host.
    """

    identity: Identity
    state: ProcessState
    uses: tuple[DeviceUse, ...] = ()
    parent_pid: int | None = None
    user: Reading[str] = NOT_READ
    command: Reading[str] = NOT_READ
    cpu_percent: Reading[float] = NOT_READ
    rss_bytes: Reading[int] = NOT_READ
    pss_bytes: Reading[int] = NOT_READ
    workers: Workers | None = None
    rank: Rank | None = None
    has_probe: bool = False

    @property
    def pid(self) -> int:
        """The process's PID."""
        return self.identity.pid


class Unattributed(NamedTuple):
    """What a device holds that no visible process accounts for, with the likely cause in words."""

    device: str
    used_bytes: int
    cause: str


class ProcessLook(NamedTuple):
    """One look at the processes: what the process source returns.

    `problem` is a sentence about the list as a whole: a private PID namespace, a driver that refuses the list.
    """

    processes: tuple[Process, ...] = ()
    unattributed: tuple[Unattributed, ...] = ()
    problem: str | None = None


class TreeEntry(NamedTuple):
    """A process in the tree of another: itself, its ancestors or its descendants, `depth` from the root."""

    identity: Identity
    depth: int
    state: ProcessState
    command: str
    cpu_percent: Reading[float]
    rss_bytes: Reading[int]
    threads: Reading[int]


class ProcessDetails(NamedTuple):
    """What the process screen shows of one process beyond its row, read only while somebody looks at it.

    `waiting_for` says in words what the main thread waits for (`/proc/PID/wchan`, `syscall`, state).
    `environment` is in the order of the process's own.
    """

    identity: Identity
    tree: tuple[TreeEntry, ...] = ()
    environment: Reading[tuple[tuple[str, str], ...]] = NOT_READ
    working_directory: Reading[str] = NOT_READ
    executable: Reading[str] = NOT_READ
    command_line: Reading[tuple[str, ...]] = NOT_READ
    waiting_for: Reading[str] = NOT_READ
    threads: Reading[int] = NOT_READ
    open_files: Reading[int] = NOT_READ
    pss_bytes: Reading[int] = NOT_READ
    shared_bytes: Reading[int] = NOT_READ
    swap_bytes: Reading[int] = NOT_READ
    read_bytes_per_s: Reading[float] = NOT_READ
    write_bytes_per_s: Reading[float] = NOT_READ

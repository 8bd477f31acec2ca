"""Processes on devices: what the host knows about them, joined with the memory NVML says they hold."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from gputui.model.machine.device import DeviceUse
from gputui.model.machine.owner import Owner
from gputui.model.reading import NOT_READ, Reading


class ProcessState(str, Enum):
    """What the host knows about a PID that NVML named."""

    RUNNING = "running"
    SLEEPING = "sleeping"
    WAITING_FOR_IO = "waiting for I/O"
    STOPPED = "stopped"
    ZOMBIE = "zombie"
    VANISHED = "vanished"
    """The PID belongs to this namespace, and the process is gone."""
    HIDDEN = "hidden from this user"
    """The process exists, but /proc (mounted with hidepid) does not show it."""
    UNREADABLE = "cannot be read"
    """Its file in /proc could not be read, for a reason that says nothing about the process, such as EMFILE."""
    ELSEWHERE = "in another PID namespace"
    """NVML reports the host's PIDs, and gputui runs in a container, where they mean nothing."""
    CONTAINED = "in another container"
    """NVML reports PID 0, as it does for a process that has no PID in gputui's PID namespace."""


OTHER_NAMESPACES = (ProcessState.ELSEWHERE, ProcessState.CONTAINED)


class Identity(NamedTuple):
    """PID and start time (epoch seconds), which tell a process from a later one with the same PID.

    `number` tells processes apart that NVML lists under PID 0.
    """

    pid: int
    started: float | None
    number: int = 0


class Workers(NamedTuple):
    """The host resources of a process's descendants without a GPU, such as DataLoader workers.

    `resident_bytes` sums their PSS, or the RSS of those whose PSS was not read; `is_proportional`: it was read of all,
    so shared pages are counted once. `running` of them run or wait for a core now, `on_disk` wait for a disk.
    """

    count: int  # type: ignore[assignment]  # in place of a method of tuples
    cpu_percent: float
    resident_bytes: int
    is_proportional: bool
    running: int = 0
    on_disk: int = 0


class Rank(NamedTuple):
    """A process's place in a distributed job, from its environment; `launcher_pid` is its torchrun, srun or the like.

    `rendezvous` is the address at which the job's ranks meet ("node1:29500"), "" where that is not known.
    """

    rank: int
    world_size: int
    local_rank: int | None
    launcher_pid: int | None
    rendezvous: str = ""


class Process(NamedTuple):
    """One process and what it holds on devices.

    `cpu_percent` is of one core since the last look, absent at the first one. `rss_bytes` is its own resident memory.
    `pss_bytes` divides shared pages among their users, so it adds up with that of the workers; reading it is expensive,
    so it is read seldom and only if there are workers. `is_orphan`: the process that started it has ended, and init has
    taken it over. `server_pid` is the front of the inference server to which this process belongs.
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
    owner: Reading[Owner] = NOT_READ
    is_orphan: bool = False
    server_pid: int | None = None

    @property
    def pid(self) -> int:
        """The process's PID."""
        return self.identity.pid


class Unattributed(NamedTuple):
    """Device memory that no visible process accounts for, with the likely cause in words.

    `is_usual`: the cause is harmless, and nothing has to be done about it.
    """

    device: str
    used_bytes: int
    cause: str
    is_usual: bool = False


class ProcessLook(NamedTuple):
    """All processes at one time: what the process source returns.

    `problem` is about the list as a whole: a private PID namespace, or a driver that refuses the list.
    """

    processes: tuple[Process, ...] = ()
    unattributed: tuple[Unattributed, ...] = ()
    problem: str | None = None


class TreeEntry(NamedTuple):
    """A process in the tree of another: itself, an ancestor or a descendant, `depth` levels below the root."""

    identity: Identity
    depth: int
    state: ProcessState
    command: str
    cpu_percent: Reading[float]
    rss_bytes: Reading[int]
    threads: Reading[int]


class ProcessDetails(NamedTuple):
    """What the process screen shows of one process beyond its row, read only while it is on screen.

    `waiting_for` says in words what the main thread waits for (`/proc/PID/wchan`, `syscall`, state).
    `environment` keeps the process's own order. `unshown_descendants` counts the descendants that `tree` leaves out.
    """

    identity: Identity
    tree: tuple[TreeEntry, ...] = ()
    unshown_descendants: int = 0
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

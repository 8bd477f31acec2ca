"""Finds processes that work together: the ranks of a job by variables, the processes of a server by titles."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from gputui.model.machine.process import Rank
from gputui.model.reading import Reading
from gputui.sources.processes.family import Family
from gputui.sources.procfs import ProcFs

_RANK_VARIABLES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
)
"""Variables of torchrun, Open MPI and a SLURM step. The single process of a batch script has SLURM_NTASKS, too."""

_LAUNCHERS = frozenset(
    (
        "torchrun",
        "accelerate",
        "deepspeed",
        "mpirun",
        "mpiexec",
        "orterun",
        "prterun",
        "horovodrun",
        "srun",
        "slurmstepd",
    )
)
_LAUNCHER_MODULES = (
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate.commands.launch",
    "deepspeed.launcher",
)


_TITLES = ("VLLM::", "sglang::")
"""How the titles begin with which a server's processes replace their command lines; its front keeps its own."""
_TITLE_BYTES = 64

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Every machine has these addresses, so they do not tell the jobs of two machines apart."""

DIGITS_AT_MOST = 9
"""No rank needs more; `int` raises ValueError beyond 4,300 digits."""


class JobPlace(NamedTuple):
    """A process's place in a distributed job."""

    rank: int
    world_size: int
    local_rank: int | None
    rendezvous: str = ""


class Ranks:
    """Finds the launchers, and remembers which ancestors are launchers until the family is read again."""

    def __init__(self, proc: ProcFs, family: Family) -> None:
        self._proc, self._family = proc, family
        self._is_launcher: dict[int, bool] = {}

    def forget(self) -> None:
        """Forget the launchers: other processes may have their PIDs now."""
        self._is_launcher.clear()

    def of(self, places: Mapping[int, JobPlace], parents: Mapping[int, int]) -> dict[int, Rank]:
        """The rank of each process that has a place in a job, by PID; `parents` has their parents."""
        places = {pid: place for pid, place in places.items() if not self._inherits(pid, place, places)}
        ranks_below = Counter(parents[pid] for pid in places)
        ranks = {}
        for pid, place in places.items():
            parent = parents[pid]
            launcher = self._launcher(pid, places)
            if launcher is None and ranks_below[parent] > 1:
                launcher = parent
            ranks[pid] = Rank(*place[:3], launcher, place.rendezvous)
        return ranks

    def _inherits(self, pid: int, place: JobPlace, places: Mapping[int, JobPlace]) -> bool:
        """Whether a process is no rank, but a descendant that has inherited the rank's variables."""
        return any(places.get(ancestor) == place for ancestor in self._family.ancestors(pid))

    def _launcher(self, pid: int, places: Mapping[int, JobPlace]) -> int | None:
        ancestors = (ancestor for ancestor in self._family.ancestors(pid) if ancestor not in places)
        return next((ancestor for ancestor in ancestors if self._launches(ancestor)), None)

    def _launches(self, pid: int) -> bool:
        if pid not in self._is_launcher:
            try:
                self._is_launcher[pid] = is_launcher(self._proc.arguments(pid))
            except OSError:  # hidden or gone: unknown
                self._is_launcher[pid] = False
        return self._is_launcher[pid]


class Servers:
    """Finds the front of a server, the process above its engines and workers, which often has no GPU."""

    def __init__(self, proc: ProcFs, family: Family) -> None:
        self._proc, self._family = proc, family

    def of(self, commands: Mapping[int, Reading[str]]) -> dict[int, int]:
        """The front of each process, by PID, where several of these processes belong to the same server."""
        titled = [pid for pid, command in commands.items() if isinstance(command, str) and command.startswith(_TITLES)]
        fronts = {pid: self._front(pid) for pid in titled}
        counts = Counter(fronts.values())
        return {pid: front for pid, front in fronts.items() if counts[front] > 1}

    def _front(self, pid: int) -> int:
        """The first ancestor without a title: the front starts engine cores, and an engine core starts workers."""
        for ancestor in self._family.ancestors(pid):
            if not self._is_titled(ancestor):
                return ancestor
        return pid

    def _is_titled(self, pid: int) -> bool:
        try:
            return "".join(self._proc.arguments(pid, _TITLE_BYTES)[:1]).startswith(_TITLES)
        except OSError:  # hidden or gone
            return False


def place_in_job(environment: Mapping[str, str]) -> JobPlace | None:
    """Rank and world size, from the variables that the launcher set."""
    for rank_name, size_name, local_name in _RANK_VARIABLES:
        rank, size = _number(environment, rank_name), _number(environment, size_name)
        if rank is None or size is None or not 0 <= rank < size:
            continue
        if size > 1 or rank_name == "RANK":
            return JobPlace(rank, size, _number(environment, local_name), _rendezvous(environment))
    return None


def _rendezvous(environment: Mapping[str, str]) -> str:
    """The address at which the ranks of a PyTorch job meet; "" where it is not given."""
    address, port = environment.get("MASTER_ADDR", ""), _number(environment, "MASTER_PORT")
    if address in _LOOPBACK:
        address = socket.gethostname()
    return f"{address}:{port}" if address and port else ""


def is_launcher(arguments: tuple[str, ...]) -> bool:
    """Whether a command line is that of torchrun, srun or the like, possibly after an interpreter."""
    names = [os.path.basename(argument) for argument in arguments[:3]]
    is_module = any(argument.startswith(_LAUNCHER_MODULES) for argument in arguments[:6])
    return is_module or not _LAUNCHERS.isdisjoint(name.rstrip(":") for name in names)


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    is_number = text.isascii() and text.isdigit() and len(text) <= DIGITS_AT_MOST
    return int(text) if is_number else None

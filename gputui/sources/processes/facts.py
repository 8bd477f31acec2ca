"""What hardly changes in a process's life: whose it is, what it was started as, and its place in a job."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from gputui.model.reading import Reading
from gputui.sources.procfs import ProcFs, Stat

_RENEW_S = 30.0

_RANK_VARIABLES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
)
"""torchrun's own, Open MPI's, SLURM's of a step; SLURM_NTASKS stands in a batch script's lone process too."""

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


class JobPlace(NamedTuple):
    """A process's place in a distributed job."""

    rank: int
    world_size: int
    local_rank: int | None


class Facts(NamedTuple):
    """Read once for an identity, and again when its name changes (exec, setproctitle) or after half a minute."""

    user: Reading[str]
    command: Reading[str]
    place: JobPlace | None
    name: str
    until: float


class FactsOfProcesses:
    """Facts by identity; those that no look asks for any more are forgotten."""

    def __init__(self, proc: ProcFs, clock: Callable[[], float] = time.monotonic) -> None:
        self._proc, self._clock = proc, clock
        self._facts: dict[tuple[int, float], Facts] = {}

    def look(self, stats: Iterable[Stat]) -> dict[int, Facts]:
        """The facts of these processes by PID."""
        now = self._clock()
        last, self._facts = self._facts, {}
        for stat in stats:
            key = (stat.pid, stat.started)
            facts = last.get(key)
            if facts is None or facts.name != stat.name or facts.until < now:
                facts = self._read(stat, now, facts)
            self._facts[key] = facts
        return {pid: facts for (pid, _), facts in self._facts.items()}

    def _read(self, stat: Stat, now: float, before: Facts | None) -> Facts:
        if before and stat.letter in "ZX":  # a zombie has lost its command line and environment
            return Facts(before.user, before.command, before.place, stat.name, now + _RENEW_S)
        return Facts(
            user=user(self._proc, stat.pid),
            command=command(self._proc, stat),
            place=self._place(stat.pid),
            name=stat.name,
            until=now + _RENEW_S,
        )

    def _place(self, pid: int) -> JobPlace | None:
        try:
            return place_in_job(dict(self._proc.environment(pid)))
        except OSError:
            return None


def user(proc: ProcFs, pid: int) -> Reading[str]:
    """The user's name."""
    try:
        return proc.owner(pid)
    except OSError as error:
        return proc.why_unreadable(pid, error)


def command(proc: ProcFs, stat: Stat) -> Reading[str]:
    """The command line in one line; as ps shows it, a name in brackets where there is none."""
    try:
        return " ".join(proc.arguments(stat.pid)) or f"[{stat.name}]"
    except OSError as error:
        return proc.why_unreadable(stat.pid, error)


def place_in_job(environment: Mapping[str, str]) -> JobPlace | None:
    """Rank and world size as the launcher put them into the environment."""
    for rank_name, size_name, local_name in _RANK_VARIABLES:
        rank, size = _number(environment, rank_name), _number(environment, size_name)
        if rank is None or size is None or not 0 <= rank < size:
            continue
        if size > 1 or rank_name == "RANK":
            return JobPlace(rank, size, _number(environment, local_name))
    return None


def is_launcher(arguments: tuple[str, ...]) -> bool:
    """Whether a command line is that of torchrun, srun and the like, also behind an interpreter."""
    names = [os.path.basename(argument) for argument in arguments[:3]]
    is_module = any(argument.startswith(_LAUNCHER_MODULES) for argument in arguments[:6])
    return is_module or not _LAUNCHERS.isdisjoint(name.rstrip(":") for name in names)


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else None

"""What NCCL reports about a job, and PyTorch about a rank: how many collectives were launched in which group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

INITIALISED, STILL_INITIALISING = 0, 7
"""`ncclSuccess` and `ncclInProgress`; any other state of a communicator is an error."""


class ProcessPlace(NamedTuple):
    """A process of a job as NCCL names it: the address of its node, and its PID on the node or in its container,
    which is below 0 where NCCL does not know the process."""

    host: str
    pid: int

    @property
    def words(self) -> str:
        """ "PID 2905 on 10.0.0.12"."""
        return f"PID {self.pid} on {self.host}" if self.pid >= 0 else "in a process that NCCL cannot name"


class CommunicatorRank(NamedTuple):
    """A rank of a communicator that has answered; `counts` says how often it launched each kind of collective.

    `is_ending`: it has begun to finalize, to destroy or to abort the communicator.
    """

    rank: int
    place: ProcessPlace
    nvml_device: int
    init_state: int
    error: int
    is_ending: bool
    counts: tuple[tuple[str, int], ...]

    @property
    def total(self) -> int:
        """How many collectives the rank has launched."""
        return sum(count for _, count in self.counts)


class MissingRank(NamedTuple):
    """A rank that has not answered: NCCL could not reach its process, or has given up on it."""

    rank: int
    place: ProcessPlace
    nvml_device: int
    is_unresponsive: bool
    is_dead: bool


class Communicator(NamedTuple):
    """A communicator; `size` is how many ranks it has, `key` is different for each communicator."""

    key: str
    size: int
    ranks: tuple[CommunicatorRank, ...]
    missing: tuple[MissingRank, ...]

    @property
    def is_initialising(self) -> bool:
        """Whether a rank is not yet ready."""
        return any(rank.init_state == STILL_INITIALISING for rank in self.ranks)


class JobAnswer(NamedTuple):
    """NCCL's answer to one question about a whole job."""

    nccl_version: str
    communicators: tuple[Communicator, ...]
    timeouts: int


class RankLine(NamedTuple):
    """The line in which the main thread of a rank on this machine is, "train.py:23 in step"; "" if it cannot be read.

    `has_moved`: it was in another line a few seconds before.
    """

    pid: int
    rank: int
    line: str
    has_moved: bool = False


class Inquiry(NamedTuple):
    """What was asked of NCCL, and its answers: the second comes `interval_s` after the first.

    `here` has the PIDs on this machine of the job's processes that run here, and `doing` says by PID what main threads
    do. `problem` is why an answer is missing; `lines` are then read in its place. `is_over`: nothing more comes.
    """

    pid: int
    first: JobAnswer | None = None
    second: JobAnswer | None = None
    interval_s: float = 0.0
    here: Mapping[ProcessPlace, int] = {}
    doing: Mapping[int, str] = {}
    problem: str = ""
    is_over: bool = False
    lines: tuple[RankLine, ...] = ()


class Question(NamedTuple):
    """What the user reads before NCCL in a process is asked."""

    pid: int
    sentences: tuple[str, ...]
    warning: str


class Launched(NamedTuple):
    """How many collectives a process has launched in one of its process groups.

    `job` ("host:port" of the job's store, "" if it is not known), `key`, `first_rank` (the lowest of the group's ranks,
    as the job numbers them) and `size` are the same in all processes of the group; `name` is for people. `rank` is this
    process's rank in the group. `since` is when the present number was first seen, in epoch seconds.
    """

    job: str
    key: str
    name: str
    first_rank: int
    size: int
    rank: int
    launched: int
    since: float = 0.0

    @property
    def group(self) -> tuple[str, str, int, int]:
        """The same in all processes of the group, and different for other groups."""
        return self.job, self.key, self.first_rank, self.size

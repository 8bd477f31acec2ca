"""The parts of a fleet: nodes, GPUs, jobs, and the processes on GPUs."""

from __future__ import annotations

import re
from typing import NamedTuple

from gputui.model.reading import Absent, AbsentKind, Reading

NOT_EXPORTED = Absent("no exporter tells it", AbsentKind.NOT_SUPPORTED)


class Place(NamedTuple):
    """A node: its name, and its cluster's, "" where the scrape configuration names none."""

    cluster: str
    node: str

    @property
    def order(self) -> tuple[object, ...]:
        """A key that sorts node2 before node10."""
        return _natural(self.cluster), _natural(self.node)


class JobName(NamedTuple):
    """A job, pod, container or unit: its kind for people ("Slurm job"), and its name."""

    cluster: str
    kind: str
    name: str


class Readings(NamedTuple):
    """Of one GPU, or of several together: shares are means, bytes and watts sums, the temperature is the highest."""

    busy_percent: Reading[float] = NOT_EXPORTED
    sm_active_percent: Reading[float] = NOT_EXPORTED
    tensor_percent: Reading[float] = NOT_EXPORTED
    used_bytes: Reading[float] = NOT_EXPORTED
    total_bytes: Reading[float] = NOT_EXPORTED
    power_w: Reading[float] = NOT_EXPORTED
    power_limit_w: Reading[float] = NOT_EXPORTED
    temperature_c: Reading[float] = NOT_EXPORTED


class NodeProblem(NamedTuple):
    """Why a node tells nothing, or no GPU, and since when (epoch seconds); `is_brief`: that happens, and passes."""

    cause: str
    remedy: str
    since: float
    is_brief: bool = False


class Node(NamedTuple):
    """A node with its GPUs together; `gone` counts those that were there in the last hour and are not now.

    `problem` is why its figures are not of now; `is_awaited`: it was asked, and has not answered yet.
    """

    place: Place
    gpus: int
    readings: Readings = Readings()
    gone: int = 0
    problem: NodeProblem | None = None
    is_awaited: bool = False


class FleetDevice(NamedTuple):
    """A GPU; `number` is its number on the node as its exporter has it, `name` its model, "" where nobody tells.

    `is_instance`: it is a MIG instance, a part of a GPU, which counts already.
    """

    place: Place
    uuid: str
    number: str = ""
    name: str = ""
    readings: Readings = Readings()
    is_lost: bool = False
    is_instance: bool = False


class Holding(NamedTuple):
    """What a process has on one GPU, as gputui's exporter tells it; PyTorch's figures are those of its allocator."""

    place: Place
    pid: int
    uuid: str
    number: str = ""
    user: str = ""
    program: str = ""
    job: JobName | None = None
    rank: int | None = None
    world_size: int | None = None
    used_bytes: Reading[float] = NOT_EXPORTED
    busy_percent: Reading[float] = NOT_EXPORTED
    torch_reserved_bytes: Reading[float] = NOT_EXPORTED
    torch_allocated_bytes: Reading[float] = NOT_EXPORTED


class Job(NamedTuple):
    """A job over all its nodes; `gpus` are those on which its processes hold memory."""

    name: JobName
    user: str
    nodes: int
    gpus: int
    processes: int
    used_bytes: Reading[float] = NOT_EXPORTED
    busy_percent: Reading[float] = NOT_EXPORTED


class Sign(NamedTuple):
    """Something that a rule's question has found: where, and with which numbers. `kind` names the rule.

    `value` is what was found, `usual` what it is compared with.
    """

    kind: str
    place: Place
    uuid: str = ""
    number: str = ""
    job: JobName | None = None
    user: str = ""
    pid: int | None = None
    rank: int | None = None
    value: float = 0.0
    usual: float | None = None


def _natural(text: str) -> tuple[object, ...]:
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d{1,9})", text))

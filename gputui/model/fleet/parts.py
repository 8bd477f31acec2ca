"""The parts of a fleet: nodes, GPUs, jobs, and the processes on GPUs."""

from __future__ import annotations

import re
from typing import NamedTuple

from gputui.model.reading import Absent, AbsentKind, Reading

NOT_EXPORTED = Absent("no exporter tells it", AbsentKind.NOT_SUPPORTED)


class Place(NamedTuple):
    """A node's name and that of its cluster, "" where the scrape configuration names none."""

    cluster: str
    node: str

    @property
    def order(self) -> tuple[object, ...]:
        """A sort key by which node2 comes before node10."""
        return _natural(self.cluster), _natural(self.node)


class JobName(NamedTuple):
    """A job, pod, container or unit: its kind in words ("Slurm job"), and its name."""

    cluster: str
    kind: str
    name: str


class Readings(NamedTuple):
    """The readings of a GPU, or of several: means of shares, sums of bytes and watts, and the highest temperature."""

    busy_percent: Reading[float] = NOT_EXPORTED
    sm_active_percent: Reading[float] = NOT_EXPORTED
    tensor_percent: Reading[float] = NOT_EXPORTED
    used_bytes: Reading[float] = NOT_EXPORTED
    total_bytes: Reading[float] = NOT_EXPORTED
    power_w: Reading[float] = NOT_EXPORTED
    power_limit_w: Reading[float] = NOT_EXPORTED
    temperature_c: Reading[float] = NOT_EXPORTED


class NodeProblem(NamedTuple):
    """Why a node reports nothing, or no GPU, and since when (epoch seconds); `is_brief`: it may pass by itself soon."""

    cause: str
    remedy: str
    since: float
    is_brief: bool = False


class Node(NamedTuple):
    """A node with its GPUs together; `gone` counts the GPUs that were there in the last hour and are not now.

    `problem` is why its figures are old; `is_awaited`: it was asked, and has not answered yet.
    """

    place: Place
    gpus: int
    readings: Readings = Readings()
    gone: int = 0
    problem: NodeProblem | None = None
    is_awaited: bool = False


class FleetDevice(NamedTuple):
    """A GPU; `number` is the one that its exporter gives it on the node, `name` its model; "" where not exported.

    `is_instance`: it is a MIG instance, a part of a GPU that is listed, too.
    """

    place: Place
    uuid: str
    number: str = ""
    name: str = ""
    readings: Readings = Readings()
    is_lost: bool = False
    is_instance: bool = False


class Holding(NamedTuple):
    """What a process has on one GPU, as gputui there reports it; `torch_*_bytes` are those of PyTorch's allocator."""

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
    """A job over all its nodes; `gpus` counts the GPUs on which its processes hold memory."""

    name: JobName
    user: str
    nodes: int
    gpus: int
    processes: int
    used_bytes: Reading[float] = NOT_EXPORTED
    busy_percent: Reading[float] = NOT_EXPORTED


class Sign(NamedTuple):
    """What the question of a rule (`kind`) has found at one place; `value` is the figure that it found."""

    kind: str
    place: Place
    uuid: str = ""
    number: str = ""
    job: JobName | None = None
    user: str = ""
    pid: int | None = None
    rank: int | None = None
    value: float = 0.0


def _natural(text: str) -> tuple[object, ...]:
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d{1,9})", text))

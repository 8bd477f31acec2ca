"""Which space of the host is about to run out, and when: memory, the container's limit, swap, /dev/shm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gputui.explain.machine import thresholds
from gputui.explain.machine.scene import Holding, Scene, Sign, mean
from gputui.model.history import HOST, SPANS_S
from gputui.model.machine.host import Space
from gputui.model.reading import value_of
from gputui.units import format_bytes, format_duration, format_rate


class _Room(NamedTuple):
    """A space that can run out: its name, the series of its use in the history, what happens then, and what to do."""

    name: str
    series: str
    consequence: str
    remedy: str


MEMORY = _Room(
    "Host memory",
    "used_bytes",
    "When it is full, the kernel ends the process that holds most.",
    "Start fewer DataLoader workers, or let each keep less: a large list of Python objects is copied into every "
    "worker, a NumPy array is not.",
)
LIMIT = _Room(
    "The memory limit of this container or job",
    "limit_bytes",
    "When it is reached, the kernel ends a process in it, however much memory the host has.",
    "Ask for more (docker --memory, Slurm --mem, Kubernetes resources.limits.memory), or start fewer workers.",
)
SWAP = _Room(
    "Swap",
    "swap_bytes",
    "Memory is nearly full, too: what does not fit is ended.",
    "End what is not needed: programs that are swapped out stop for seconds at a time.",
)
SHM = _Room(
    "/dev/shm",
    "shm_bytes",
    "DataLoader workers hand their batches over in it: when it is full, they die with a bus error.",
    "Start the container with more (docker --shm-size=16g, or --ipc=host; in Kubernetes an emptyDir with "
    "medium: Memory at /dev/shm), or remove what ended programs left there.",
)


def running_out(scene: Scene) -> Iterator[Sign]:
    """Spaces that are nearly full, or grow so fast that they soon will be."""
    host = scene.snapshot.host
    memory = value_of(host.memory)
    rooms: list[tuple[_Room, Space | None]] = [(LIMIT, host.memory_limit), (SHM, value_of(host.shm))]
    if memory:
        rooms.append((MEMORY, Space(memory.total_bytes, memory.used_bytes)))
        if memory.used_bytes >= thresholds.NEARLY_FULL_SHARE * memory.total_bytes:
            rooms.append((SWAP, value_of(host.swap)))
    for room, space in rooms:
        if space and space.total_bytes and space.used_bytes >= thresholds.FILLING_SHARE * space.total_bytes:
            title = _fullness(room, space, scene)
            if title:
                evidence = (
                    f"{format_bytes(space.used_bytes)} of {format_bytes(space.total_bytes)} are in use.",
                    room.consequence,
                    *_largest(scene),
                )
                yield Sign("host", title, evidence, room.remedy, about=room.series)


def _fullness(room: _Room, space: Space, scene: Scene) -> str:
    """The title of the finding about a space, "" if it is not one."""
    share = space.used_bytes / space.total_bytes
    if share >= thresholds.NEARLY_FULL_SHARE:
        return f"{room.name} is nearly full: {100 * share:.0f}%"
    growth = _growth_bytes_per_s(room, scene)
    left_s = (space.total_bytes - space.used_bytes) / growth if growth > 0 else float("inf")
    if left_s > thresholds.FULL_WITHIN_S:
        return ""
    return f"{room.name} will be full in about {format_duration(left_s)}: it grows by {format_rate(growth)}"


def _growth_bytes_per_s(room: _Room, scene: Scene) -> float:
    """The growth over the last `GROWTH_OVER_S`; 0 where gputui has watched for less."""
    span_s = SPANS_S[1]
    points = scene.history.last(HOST, room.series, round(thresholds.GROWTH_OVER_S / span_s), 1)
    known = [point for point in points if point is not None]
    if len(known) < 0.9 * len(points):
        return 0.0
    tenth = len(known) // 10
    return (mean(known[-tenth:]) - mean(known[:tenth])) / (span_s * (len(known) - tenth))


def _largest(scene: Scene) -> Iterator[str]:
    """Sentences on the two GPU processes that hold most of the host's memory, together with their workers."""
    held = []
    for process in scene.snapshot.processes.processes:
        workers = process.workers.resident_bytes if process.workers else 0
        resident = value_of(process.pss_bytes) or value_of(process.rss_bytes) or 0
        if process.uses and resident + workers:
            held.append((resident + workers, process))
    for held_bytes, process in sorted(held, key=lambda pair: -pair[0])[:2]:
        count = process.workers.count if process.workers else 0
        with_workers = f" with {count} workers" if count else ""
        yield f"{Holding(process, process.uses[0]).who}{with_workers} holds {format_bytes(held_bytes)} of host memory."

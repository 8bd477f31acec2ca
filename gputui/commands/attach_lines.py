"""Lines about processes that can be attached to, and about one that is."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gputui.explain.release import predict_device
from gputui.model.allocator import AllocatorStatistics
from gputui.model.moment import TargetMoment
from gputui.model.target import Greeting, Look, Statistics
from gputui.sources.probe.listing import ProbeInfo
from gputui.units import format_bytes

COLUMNS = ("PID", "USER", "RANK", "PYTORCH", "DEVICES", "COMMAND")
NOTHING = (
    "No process can be attached to. Start one with `gputui run train.py ...`, or put `import gputui.probe` into it.\n"
)


def listing(found: Sequence[ProbeInfo]) -> str:
    """A table of processes with a probe."""
    if not found:
        return NOTHING
    rows = [COLUMNS, *map(_row, found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS) - 1)]
    lines = ([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]] for row in rows)
    return "".join("  ".join(line) + "\n" for line in lines)


def introduction(greeting: Greeting) -> str:
    """What process this is, on a line."""
    rank = f", rank {greeting.rank} of {greeting.world_size}" if greeting.rank is not None else ""
    torch = f"PyTorch {greeting.torch}" if greeting.torch else "no PyTorch yet"
    return f"{greeting.pid}  {greeting.command}  (Python {greeting.python}, {torch}{rank})\n"


def summary(pid: int, statistics: Statistics, look: Look | None) -> str:
    """A line for each device that holds something, of this moment."""
    devices = [each for each in statistics.devices if each.reserved_bytes]
    return _lines(pid, statistics.time, [_device(each, _releasable_bytes(each, look)) for each in devices])


def summary_of(moment: TargetMoment) -> str:
    """The same of a moment for the screens."""
    devices = [each for each in moment.devices if each.statistics.reserved_bytes]
    lines = [
        _device(each.statistics, each.layout.release.releasable_bytes if each.layout else None) for each in devices
    ]
    return _lines(moment.pid, moment.time, lines)


def _lines(pid: int, when: float, lines: list[str]) -> str:
    moment = time.strftime("%H:%M:%S", time.localtime(when))
    return "".join(f"{moment}  {pid}  {line}\n" for line in lines or ["no memory of a GPU is held"])


def _releasable_bytes(counted: AllocatorStatistics, look: Look | None) -> int | None:
    if look is None or look.map is None:
        return None
    return predict_device(look.map, counted.device).releasable_bytes


def _device(counted: AllocatorStatistics, releasable_bytes: int | None) -> str:
    parts = [
        f"cuda:{counted.device}",
        f"allocated {format_bytes(counted.allocated_bytes)}",
        f"reserved {format_bytes(counted.reserved_bytes)}",
        f"peak {format_bytes(counted.peak_allocated_bytes)}",
    ]
    if releasable_bytes is not None:
        parts.append(f"empty_cache() would release {format_bytes(releasable_bytes)}")
    if counted.num_alloc_retries or counted.num_ooms:
        parts.append(f"retries {counted.num_alloc_retries}, out of memory {counted.num_ooms}")
    return "  ".join(parts)


def _row(found: ProbeInfo) -> tuple[str, ...]:
    greeting = found.greeting
    if greeting is None:
        return (str(found.pid), found.user, "-", "-", "-", found.problem)
    rank = f"{greeting.rank}/{greeting.world_size}" if greeting.rank is not None else "-"
    held = ", ".join(f"cuda:{each.device} {format_bytes(each.reserved_bytes)}" for each in found.held)
    return (str(found.pid), found.user, rank, greeting.torch or "-", held or "-", greeting.command)

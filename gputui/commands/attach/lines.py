"""Lines of text about attached processes, and the table of processes that have a probe."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.explain.memory.drivers import physical_device
from gputui.explain.memory.release import forecast, predict_device
from gputui.model.attached.allocator import AllocatorStatistics
from gputui.model.attached.analysis import Release
from gputui.model.attached.moment import TargetMoment, device_number
from gputui.model.attached.target import Greeting, Look, Statistics
from gputui.model.machine.device import DeviceLook
from gputui.model.machine.programs import program_of
from gputui.output import columns_of, padded
from gputui.sources.probe.told import ProbeInfo
from gputui.units import format_bytes, format_clock

COLUMNS = ("PID", "USER", "RANK", "PYTORCH", "RESERVED", "COMMAND")
NOTHING = (
    "There is no process to attach to. Start one with `gputui run train.py`, or put `import gputui.probe` into it.\n"
)


def listing(processes: Sequence[ProbeInfo], look: DeviceLook) -> str:
    """A table of processes with a probe, with NVML's number of a device where PyTorch has another one."""
    if not processes:
        return NOTHING
    rows = [COLUMNS, *(_row(process, look) for process in processes)]
    widths = [max(columns_of(row[column]) for row in rows) for column in range(len(COLUMNS) - 1)]
    lines = ([*(padded(cell, width) for cell, width in zip(row, widths, strict=False)), row[-1]] for row in rows)
    return "".join("  ".join(line) + "\n" for line in lines)


def introduction(greeting: Greeting, node: str = "") -> str:
    """The command and versions of an attached process, on one line; `node` is its machine, "" for this one."""
    rank = f", rank {greeting.rank} of {greeting.world_size}" if greeting.rank is not None else ""
    torch = f"PyTorch {greeting.torch}" if greeting.torch else "no PyTorch yet"
    place = f"{node}:{greeting.pid}" if node else greeting.pid
    return f"{place}  {program_of(greeting.command)}  (Python {greeting.python}, {torch}{rank})\n"


def summary(pid: int, statistics: Statistics, look: Look | None) -> str:
    """A line for each device on which the process holds memory now."""
    lines = [_device(device, _release(device, look)) for device in statistics.devices if device.reserved_bytes]
    return _lines(pid, statistics.time, lines)


def summary_of(moment: TargetMoment) -> str:
    """A line for each device on which the process held memory in a moment of a feed or a recording."""
    lines = [
        _device(device.statistics, device.layout.release if device.layout else None)
        for device in moment.devices
        if device.statistics.reserved_bytes
    ]
    return _lines(moment.pid, moment.time, lines)


def _lines(pid: int, when: float, lines: list[str]) -> str:
    moment = format_clock(when)
    return "".join(f"{moment}  {pid}  {line}\n" for line in lines or ["holds no GPU memory"])


def _release(statistics: AllocatorStatistics, look: Look | None) -> Release | None:
    return predict_device(look.map, statistics.device) if look and look.map else None


def _device(statistics: AllocatorStatistics, release: Release | None) -> str:
    parts = [
        f"cuda:{statistics.device}",
        f"allocated {format_bytes(statistics.allocated_bytes)}",
        f"reserved {format_bytes(statistics.reserved_bytes)}",
        f"peak {format_bytes(statistics.peak_allocated_bytes)}",
    ]
    if release is not None:
        parts.append(f"empty_cache() would release {forecast(release)}")
    if statistics.num_alloc_retries or statistics.num_ooms:
        parts.append(f"retries {statistics.num_alloc_retries}, out of memory {statistics.num_ooms}")
    return "  ".join(parts)


def _row(process: ProbeInfo, look: DeviceLook) -> tuple[str, ...]:
    greeting = process.greeting
    if greeting is None:
        return (str(process.pid), process.user, "-", "-", "-", process.problem)
    rank = f"{greeting.rank}/{greeting.world_size}" if greeting.rank is not None else "-"
    physical = {device.index: physical_device(device, look) for device in greeting.devices}
    numbers = {index: device_number(index, device.index if device else None) for index, device in physical.items()}
    held = ", ".join(
        f"cuda:{numbers.get(device.device, device.device)} {format_bytes(device.reserved_bytes)}"
        for device in process.held
    )
    return (str(process.pid), process.user, rank, greeting.torch or "-", held or "-", program_of(greeting.command))

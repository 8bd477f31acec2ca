"""One look as text for people: devices, host, processes and problems, in ASCII for any terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from gputui.model.machine.device import Device, DeviceMemory, DeviceUse
from gputui.model.machine.device_readings import READINGS
from gputui.model.machine.finding import MachineFinding
from gputui.model.machine.process import Process
from gputui.model.machine.programs import program_of
from gputui.model.machine.reading_declaration import DeviceReading
from gputui.model.machine.snapshot import Snapshot
from gputui.model.reading import Absent, Reading, value_of
from gputui.model.weight import Weight
from gputui.once.document import document
from gputui.output import BOLD, NORMAL, YELLOW, columns_of, cut, padded
from gputui.units import format_bytes, format_bytes_short, format_duration

_NARROWEST = 40


class Column(NamedTuple):
    """A column: its title, the cell of a row, and whether it is text (aligned left) or a number."""

    title: str
    text: Callable[[Any], str]
    is_text: bool = False


class _Use(NamedTuple):
    """A row of the process table: what a process does on one device."""

    device: Device
    use: DeviceUse
    process: Process | None
    now: float


def _number(reading: Reading[float], unit: str = "") -> str:
    return "-" if isinstance(reading, Absent) else f"{reading:.0f}{unit}"


def _text(reading: Reading[str]) -> str:
    return "-" if isinstance(reading, Absent) else reading


def _memory(device: Device) -> str:
    memory = value_of(device.memory)
    if isinstance(memory, DeviceMemory):
        return f"{format_bytes(memory.used_bytes)} / {format_bytes(memory.total_bytes)}"
    return "shared with host" if device.shares_host_memory else "-"


def _power(device: Device) -> str:
    return (
        f"{_number(device.power_w)} / {_number(device.power_limit_w)} W"
        if value_of(device.power_w) is not None
        else "-"
    )


def _cpu(row: _Use) -> str:
    return _number(row.process.cpu_percent, "%") if row.process else "-"


def _rss(row: _Use) -> str:
    rss = value_of(row.process.rss_bytes) if row.process else None
    return "-" if rss is None else format_bytes_short(rss)


def _age(row: _Use) -> str:
    started = row.process.identity.started if row.process else None
    return "-" if started is None else format_duration(row.now - started)


def _command(row: _Use) -> str:
    if row.process is None:
        return "-"
    command = value_of(row.process.command)
    return program_of(command) if command else f"({row.process.state.value})"


def _job(row: _Use) -> str:
    owner = value_of(row.process.owner) if row.process else None
    return (owner.name if owner else "") or "-"


def _used(row: _Use) -> str:
    used = value_of(row.use.used_bytes)
    return "-" if used is None else format_bytes(used)


def _reading_text(reading: DeviceReading) -> Callable[[Device], str]:
    def text(device: Device) -> str:
        value = reading.text(device)
        return "-" if isinstance(value, Absent) else value.replace(" °", "")

    return text


_DEVICE_COLUMNS = (
    Column("GPU", lambda device: device.label),
    Column("NAME", lambda device: device.name.removeprefix("NVIDIA "), is_text=True),
    Column("UTIL", lambda device: _number(device.gpu_utilization_percent, "%")),
    Column("MEMORY", _memory),
    Column("TEMP", lambda device: _number(device.temperature_c, "C")),
    Column("POWER", _power),
    *(Column(reading.once_title, _reading_text(reading)) for reading in READINGS if reading.once_title),
    Column("NOTES", lambda device: "lost" if device.lost else ", ".join(value_of(device.throttle_reasons) or ()), True),
)
_JOB_COLUMN = Column("JOB", _job, is_text=True)
"""Left out where no process is in a job, pod, container or unit."""
_PROCESS_COLUMNS = (
    Column("GPU", lambda row: row.device.label),
    Column("PID", lambda row: str(row.use.pid)),
    Column("TYPE", lambda row: row.use.kind, is_text=True),
    Column("USER", lambda row: _text(row.process.user) if row.process else "-", is_text=True),
    _JOB_COLUMN,
    Column("MEMORY", _used),
    Column("SM", lambda row: _number(row.use.sm_percent, "%")),
    Column("CPU", _cpu),
    Column("RSS", _rss),
    Column("TIME", _age),
    Column("COMMAND", _command, is_text=True),
)


def plain(snapshot: Snapshot, width: int, *, in_color: bool) -> str:
    """The look in lines of at most `width` columns: problems are wrapped, everything else is cut."""
    width = max(width, _NARROWEST)
    bold, plain_again = (BOLD, NORMAL) if in_color else ("", "")
    lines = [f"{bold}{cut(_heading(snapshot), width)}{plain_again}"]
    uses = _uses(snapshot)
    has_jobs = any(_job(row) != "-" for row in uses)
    process_columns = tuple(column for column in _PROCESS_COLUMNS if has_jobs or column is not _JOB_COLUMN)
    for columns, rows in ((_DEVICE_COLUMNS, snapshot.devices.devices), (process_columns, uses)):
        if rows:
            head, *body = table(columns, rows, width)
            lines += ["", f"{bold}{head}{plain_again}", *body]
        if columns is _DEVICE_COLUMNS:
            lines += ["", cut(_host(snapshot), width)]
    lines += findings_text(snapshot.findings, width)
    lines += _problems(snapshot, width, in_color=in_color)
    return "\n".join(lines) + "\n"


def table(columns: Sequence[Column], rows: Iterable[Any], width: int) -> list[str]:
    """A line of titles and a line for each row, with columns as wide as their widest cell, cut at `width`."""
    cells = [[column.title for column in columns], *([_clean(column.text(row)) for column in columns] for row in rows)]
    widths = [max(map(columns_of, column)) for column in zip(*cells, strict=True)]
    return [
        cut(
            "  ".join(
                padded(cell, room) if column.is_text else cell.rjust(room)
                for cell, room, column in zip(line, widths, columns, strict=True)
            ).rstrip(),
            width,
        )
        for line in cells
    ]


def _heading(snapshot: Snapshot) -> str:
    driver = snapshot.devices.driver
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(snapshot.time))
    parts = [snapshot.host.hostname, when]
    parts += [f"driver {version}" for version in [value_of(driver.version)] if version]
    parts += [f"CUDA {version}" for version in [value_of(driver.cuda_version)] if version]
    return "  ".join(parts)


def _host(snapshot: Snapshot) -> str:
    host = snapshot.host
    load, memory, swap = value_of(host.load), value_of(host.memory), value_of(host.swap)
    limit = host.memory_limit
    parts = [
        f"host  cpu {_number(host.cpu_percent, '%')}",
        f"load {' '.join(f'{value:.2f}' for value in load)}" if load else "load -",
        f"memory {format_bytes(memory.used_bytes)} / {format_bytes(memory.total_bytes)}" if memory else "memory -",
        f"swap {format_bytes(swap.used_bytes)} / {format_bytes(swap.total_bytes)}" if swap else "swap -",
    ]
    if limit:
        parts.insert(3, f"limit {format_bytes(limit.used_bytes)} / {format_bytes(limit.total_bytes)}")
    if host.processor_limit:
        parts.insert(1, f"limit {host.processor_limit:g} CPUs")
    return "  ".join(parts)


def _uses(snapshot: Snapshot) -> list[_Use]:
    processes = {process.pid: process for process in snapshot.processes.processes}
    return [
        _Use(device, use, processes.get(use.pid), snapshot.time)
        for device in snapshot.devices.devices
        for use in snapshot.devices.uses
        if use.device == device.key
    ]


def findings_text(findings: Iterable[MachineFinding], width: int) -> list[str]:
    """Each finding with its remedy, the numbers behind it below."""
    import textwrap

    lines: list[str] = []
    for finding in findings:
        sign = "!" if finding.weight is Weight.PROBLEM else "*"
        texts = [f"{sign} {finding.where}: {finding.title}", f"  > {finding.remedy}"]
        texts += [f"    {sentence}" for sentence in finding.evidence]
        lines.append("")
        for text in texts:
            indent = " " * (len(text) - len(text.lstrip(" >*!")))
            lines += textwrap.wrap(_clean(text), width, subsequent_indent=indent, break_on_hyphens=False)
    return lines


def _problems(snapshot: Snapshot, width: int, *, in_color: bool) -> list[str]:
    """The problems of the once document, and the memory that no visible process accounts for, in one list."""
    import textwrap

    body = document(snapshot, for_scripts=False)
    places = {device.key: device.label for device in snapshot.devices.devices}
    told = {finding.device for finding in snapshot.findings if finding.kind == "unaccounted"}
    sentences = list(body["problems"])
    for device, part in zip(snapshot.devices.devices, body["devices"], strict=True):
        sentences += [f"GPU {device.label}: {text}" for text in part["problems"]]
    sentences += [
        f"GPU {places[part.device]}: {format_bytes(part.used_bytes)} unattributed: {part.cause}"
        for part in snapshot.processes.unattributed
        if part.device not in told
    ]
    wrapper = textwrap.TextWrapper(width, subsequent_indent="  ", break_on_hyphens=False)  # paths stay whole
    lines = [line for text in sentences for line in wrapper.wrap(_clean(text))]
    start, end = (YELLOW, NORMAL) if in_color else ("", "")
    return ["", *(f"{start}{line}{end}" for line in lines)] if lines else []


def _clean(text: str) -> str:
    """One line without control characters: a command may contain escape sequences that a terminal would obey."""
    return "".join(character if character.isprintable() else "?" for character in text)

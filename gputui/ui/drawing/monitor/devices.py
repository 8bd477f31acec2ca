"""A device as one line of the overview: the columns are data, what is absent is a dash."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gputui.model.machine.device import Device, DeviceMemory, Lost
from gputui.model.machine.device_readings import READINGS
from gputui.model.machine.reading_declaration import Cadence, DeviceReading, OverviewColumn
from gputui.model.reading import Absent
from gputui.ui.drawing.appearance import Appearance, level_role
from gputui.ui.drawing.columns import Column, TableLayout, draw_row
from gputui.ui.drawing.line import Line, Piece, fit, join, width_of
from gputui.ui.drawing.meters import meter, sparkline
from gputui.units import format_bytes_short

COMMON_NAME_WORDS = ("NVIDIA ", "GeForce ", "Tesla ", "Quadro ")
QUIET_THROTTLES = frozenset({"gpu_idle", "applications_clocks_setting", "sync_boost"})
"""Reasons for lower clocks that are no problem."""


ONLY_WAITS: Piece = ("busy, no work", "fair")
"""The note on a device whose kernels only wait."""


class DeviceRow(NamedTuple):
    """A device in the overview, with its recent history (0..1) and how to draw it."""

    device: Device
    history: tuple[float | None, ...]
    appearance: Appearance
    only_waits: bool = False
    """Whether its history shows that it is busy and does next to nothing; the device screen says how that was found."""


def short_name(name: str) -> str:
    """The name without the words that nearly every device has."""
    for word in COMMON_NAME_WORDS:
        name = name.removeprefix(word)
    return name


def memory_of(device: Device) -> DeviceMemory | None:
    """The memory split, None where it could not be read."""
    return None if isinstance(device.memory, Absent) else device.memory


def memory_fraction(device: Device) -> float | None:
    """The used part of the device's memory, 0..1; what the driver reserves is not part of it."""
    memory = memory_of(device)
    return memory.used_bytes / memory.total_bytes if memory and memory.total_bytes else None


def notes(device: Device) -> list[Piece]:
    """What a person should know beyond the numbers, the worst first: there may be no room for the rest."""
    pieces: list[Piece] = []
    if not isinstance(device.ecc_uncorrected, Absent) and device.ecc_uncorrected:
        pieces.append((f"{device.ecc_uncorrected} ECC errors", "poor"))
    if not isinstance(device.remapped_rows, Absent) and device.remapped_rows.failed:
        pieces.append(("row remap failed", "poor"))
    elif not isinstance(device.remapped_rows, Absent) and device.remapped_rows.pending:
        pieces.append(("row remap pending", "poor"))
    pieces += [(problem, "poor") for problem in device.problems]
    if not isinstance(device.throttle_reasons, Absent):
        loud = [reason for reason in device.throttle_reasons if reason not in QUIET_THROTTLES]
        pieces += [(reason.replace("_", " "), "fair") for reason in loud]
    if device.shares_host_memory:
        pieces.append(("shares host memory", "dim"))
    if not isinstance(device.mig_mode, Absent) and device.mig_mode.is_enabled and device.mig is None:
        pieces.append(("MIG", "dim"))
    return pieces


def _name(row: DeviceRow) -> Piece:
    name = short_name(row.device.name)
    if row.device.mig is None:
        return (name, "plain")
    return (name[name.find("MIG ") :] if "MIG " in name else name, "dim")


def _index(row: DeviceRow) -> Piece:
    return (row.device.label, "title")


def _utilization(row: DeviceRow) -> Piece:
    value = row.device.gpu_utilization_percent
    return (row.appearance.absent, "dim") if isinstance(value, Absent) else (f"{value}%", "good")


def _utilization_meter(row: DeviceRow, width: int) -> Line:
    value = row.device.gpu_utilization_percent
    if isinstance(value, Absent):
        return ((" " * width, "plain"),)
    return meter(value / 100, width, "good", row.appearance.glyphs)


def _tensor(row: DeviceRow) -> Piece:
    value = row.device.tensor_percent
    return (row.appearance.absent, "dim") if isinstance(value, Absent) else (f"{value:.0f}%", "accent")


def _tensor_meter(row: DeviceRow, width: int) -> Line:
    """How much of the GPU's strength is used; the meter of utilisation only says how busy it is."""
    value = row.device.tensor_percent
    if isinstance(value, Absent):
        return ((" " * width, "plain"),)
    return meter(value / 100, width, "accent", row.appearance.glyphs)


def _memory_role(row: DeviceRow) -> str:
    return level_role(100 * (memory_fraction(row.device) or 0), *row.appearance.memory_percent)


def _memory_meter(row: DeviceRow, width: int) -> Line:
    fraction = memory_fraction(row.device)
    return (
        ((" " * width, "plain"),)
        if fraction is None
        else meter(fraction, width, _memory_role(row), row.appearance.glyphs)
    )


def draw_memory(row: DeviceRow, width: int) -> Line:
    """Used and total memory."""
    memory = memory_of(row.device)
    if memory is None:
        return ((fit("host memory" if row.device.shares_host_memory else row.appearance.absent, width, ">"), "dim"),)
    used = format_bytes_short(memory.used_bytes)
    total = f"/{format_bytes_short(memory.total_bytes)}"
    return join(((fit(used, width - len(total), ">"), _memory_role(row)), (total, "dim")))


def _memory_percent(row: DeviceRow) -> Piece:
    fraction = memory_fraction(row.device)
    return (row.appearance.absent, "dim") if fraction is None else (f"{100 * fraction:.0f}%", _memory_role(row))


def temperature_role(device: Device, value: float, appearance: Appearance) -> str:
    """Fair 15 °C and poor 5 °C below the slowdown temperature; the user's limits where the device reports none."""
    slowdown = device.slowdown_temperature_c
    fair, poor = appearance.temperature_c if isinstance(slowdown, Absent) else (slowdown - 15, slowdown - 5)
    return level_role(value, fair, poor)


def _temperature(row: DeviceRow) -> Piece:
    value = row.device.temperature_c
    if isinstance(value, Absent):
        return (row.appearance.absent, "dim")
    return (
        f"{value}C" if row.appearance.is_ascii else f"{value}°C",
        temperature_role(row.device, value, row.appearance),
    )


def _power(row: DeviceRow, width: int) -> Line:
    power, limit = row.device.power_w, row.device.power_limit_w
    if isinstance(power, Absent):
        return ((fit(row.appearance.absent, width, ">"), "dim"),)
    if isinstance(limit, Absent):
        return ((fit(f"{power:.0f}W", width, ">"), "plain"),)
    behind = f"/{limit:.0f}W"
    return join(((fit(f"{power:.0f}", width - len(behind), ">"), "plain"), (behind, "dim")))


def _history(row: DeviceRow, width: int) -> Line:
    return ((fit(sparkline(row.history[-width:], row.appearance.glyphs), width, ">"), "good"),)


def _notes(row: DeviceRow, width: int) -> Line:
    pieces: list[Piece] = []
    for text, role in (*([ONLY_WAITS] if row.only_waits else ()), *notes(row.device)):
        pieces += [(" ", "plain")] * bool(pieces) + [(text, role)]
    text = "".join(text for text, _ in pieces)
    if len(text) <= width:
        return join((*pieces, (" " * (width - len(text)), "plain")))
    return ((fit(text, width, ellipsis=row.appearance.glyphs.ellipsis), pieces[0][1]),)


def _value(reading: DeviceReading, role: str) -> Callable[[DeviceRow], Piece]:
    def text(row: DeviceRow) -> Piece:
        value = getattr(row.device, reading.field)
        return (row.appearance.absent, "dim") if isinstance(value, Absent) else (reading.unit.short(value), role)

    return text


def _is_any(field: str) -> Callable[[Iterable[DeviceRow]], bool]:
    """Whether any device has the reading."""
    return lambda rows: any(not isinstance(getattr(row.device, field), Absent) for row in rows)


def _reading_column(reading: DeviceReading, column: OverviewColumn) -> Column[DeviceRow]:
    return Column(
        reading.field,
        column.title,
        column.width,
        _value(reading, column.role),
        align=">",
        from_width=column.from_width,
        is_worth=_is_any(reading.field) if reading.cadence is Cadence.MEAN else None,
    )


_READING_COLUMNS = sorted(
    (_reading_column(reading, reading.column) for reading in READINGS if reading.column),
    key=lambda column: column.from_width,
)
"""What `gputui.model.machine.device_readings` declares for the overview; the columns below show several readings."""

DEVICE_COLUMNS: tuple[Column[DeviceRow], ...] = (
    Column("index", "#", 4, _index, align=">"),
    Column("name", "Device", 9, _name, grow=9, most=18),
    Column("gpu_utilization_percent", "GPU", 4, _utilization, align=">"),
    Column("gpu_meter", "", 8, draw=_utilization_meter, from_width=100, grow=2, most=30),
    Column("tensor", "Tensor", 6, _tensor, align=">", from_width=120, is_worth=_is_any("tensor_percent")),
    Column(
        "tensor_meter",
        "",
        8,
        draw=_tensor_meter,
        from_width=140,
        grow=1,
        most=15,
        is_worth=_is_any("tensor_percent"),
    ),
    Column("history", "History", 12, draw=_history, from_width=120, grow=3, most=60),
    Column("memory", "Memory", 13, draw=draw_memory, align=">"),
    Column("memory_percent", "Mem", 4, _memory_percent, align=">"),
    Column("memory_meter", "", 8, draw=_memory_meter, from_width=100, grow=2, most=30),
    Column("temperature_c", "Temp", 5, _temperature, align=">"),
    Column("power_w", "Power", 9, draw=_power, align=">"),
    *_READING_COLUMNS,
    Column("notes", "", 8, draw=_notes, grow=3, most=40, from_width=72),
)
PICTURES = frozenset({"gpu_meter", "tensor_meter", "history", "memory_meter"})
"""Columns that draw what others say in figures; printed tables leave them out."""


def draw_device(layout: TableLayout[DeviceRow], row: DeviceRow, width: int) -> Line:
    """A device in its columns, or why it does not answer."""
    return draw_lost(row, width) if row.device.lost else draw_row(layout, row, row.appearance.glyphs.ellipsis)


def draw_lost(row: DeviceRow, width: int) -> Line:
    """A device that does not answer: its number, its name and the reason, across the whole line.

    Where the remedy does not fit, the line refers to the finding, which `w`, the device screen and `--once` show.
    """
    head = fit(row.device.label, 4, ">")
    name = fit(short_name(row.device.name) or "device", 20)
    room = max(1, width - 26)
    lost = row.device.lost or Lost("")
    reason = lost.reason
    forms = (
        f"{row.appearance.glyphs.alarm} {words}"
        for words in (lost.sentence, f"{reason}: its finding says what to do", reason)
    )
    alarm = next((form for form in forms if width_of(((form, ""),)) <= room), f"{row.appearance.glyphs.alarm} {reason}")
    shown = fit(alarm, room, ellipsis=row.appearance.glyphs.ellipsis)
    return join(((f"{head} ", "title"), (f"{name} ", "dim"), (shown, "alarm")))

"""The columns of the fleet's table: those that the overview has for GPUs, for rows of any kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gputui.model.reading import Absent
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.columns import Column, TableLayout, draw_row, draw_sorted_titles
from gputui.ui.drawing.fleet.rows import FLEET_ORDER_BY_NAME, FleetRow, FleetView, RowKind
from gputui.ui.drawing.line import Line, Piece, fit, join
from gputui.ui.drawing.monitor.devices import DEVICE_COLUMNS, DeviceRow, draw_memory
from gputui.units import format_bytes_short

_ROLES = {RowKind.CLUSTER: "title", RowKind.NODE: "plain", RowKind.JOB: "plain", RowKind.DEVICE: "plain"}
_STEPS = ((1e7, 1e6, "MW"), (1e4, 1e3, "kW"), (0, 1, "W"))
"""From how many watts on a unit is used, the watts in it, and its name."""
_OF_DEVICES = {column.name: column for column in DEVICE_COLUMNS}


def _name(row: FleetRow, width: int) -> Line:
    """The name, indented by its depth, with a sign where the rows below it can be folded."""
    sign = "" if row.is_open is None else ("[-] " if row.is_open else "[+] ")
    lead = "  " * row.depth + sign
    if row.kind is RowKind.NOTE:
        return ((fit(f"{lead}{row.note[0]}", width), "dim"),)
    room = max(0, width - len(lead))
    shown = fit(row.name, room, ellipsis=row.appearance.glyphs.ellipsis) if room else ""
    return join(((fit(lead, min(width, len(lead))), "dim"), (shown, _ROLES.get(row.kind, "dim"))))


def _gpus(row: FleetRow) -> Piece:
    return ("" if row.gpus is None else f"{row.gpus}", "dim")


def _power(row: FleetRow, width: int) -> Line:
    """Power and its limit, in the unit that suits the larger of both."""
    power, limit = row.readings.power_w, row.readings.power_limit_w
    if isinstance(power, Absent):
        return ((fit("" if _is_of_processes(row) else row.appearance.absent, width, ">"), "dim"),)
    known_limit = 0.0 if isinstance(limit, Absent) else limit
    step, unit = next(each[1:] for each in _STEPS if max(known_limit, power) >= each[0])
    digits = 0 if step == 1 else 1
    behind = f"/{known_limit / step:.{digits}f}{unit}" if known_limit else unit
    return join(((fit(f"{power / step:.{digits}f}", width - len(behind), ">"), "plain"), (behind, "dim")))


def _memory(row: FleetRow, width: int) -> Line:
    """Used and total memory; only the used memory where the total is not known, as for a job."""
    used = row.readings.used_bytes
    if isinstance(used, Absent) or not isinstance(row.readings.total_bytes, Absent):
        return ((" " * width, "plain"),) if _is_note(row) else draw_memory(row.drawn, width)
    return ((fit(format_bytes_short(used), width, ">"), "plain"),)


def _note(row: FleetRow) -> Piece:
    return row.note if row.kind is not RowKind.NOTE else ("", "dim")


def _knows_tensor(rows: Iterable[FleetRow]) -> bool:
    return any(not isinstance(row.readings.tensor_percent, Absent) for row in rows)


def _knows_power(rows: Iterable[FleetRow]) -> bool:
    return any(not _is_of_processes(row) for row in rows)


def _has_no_history(row: FleetRow) -> bool:
    return not row.history


def _knows_user(rows: Iterable[FleetRow]) -> bool:
    return any(row.user for row in rows)


def _is_note(row: FleetRow) -> bool:
    """A note has no readings."""
    return row.kind is RowKind.NOTE


def _is_of_processes(row: FleetRow) -> bool:
    """Whether the row has no readings that only a GPU has, such as its temperature."""
    return row.kind in (RowKind.NOTE, RowKind.HOLDING, RowKind.JOB)


def _has_no_total(row: FleetRow) -> bool:
    return isinstance(row.readings.total_bytes, Absent) and _is_of_processes(row)


def _of_device(name: str, is_blank: Callable[[FleetRow], bool] = _is_note, **changes: object) -> Column[FleetRow]:
    """A column of the overview for the readings of any row; blank in the rows of which `is_blank` is true."""
    column: Column[DeviceRow] = _OF_DEVICES[name]
    draw_text, draw_line = column.text, column.draw

    def text(row: FleetRow) -> Piece:
        return ("", "plain") if is_blank(row) or draw_text is None else draw_text(row.drawn)

    def draw(row: FleetRow, width: int) -> Sequence[Piece]:
        return ((" " * width, "plain"),) if is_blank(row) or draw_line is None else draw_line(row.drawn, width)

    arguments = {
        "title": column.title,
        "width": column.width,
        "align": column.align,
        "from_width": column.from_width,
        "grow": column.grow,
        "most": column.most,
        "is_worth": lambda rows: any(not is_blank(row) for row in rows),
        "text": text if draw_text else None,
        "draw": draw if draw_line else None,
        **changes,
    }
    return Column(name, **arguments)  # type: ignore[arg-type]


_JOBS_FIRST: Column[FleetRow] = Column("name", "Job", 16)
FLEET_COLUMNS: tuple[Column[FleetRow], ...] = (
    Column("name", "Node", 16, draw=_name, grow=6, most=44, is_kept=True),
    Column("gpus", "GPUs", 4, _gpus, align=">"),
    _of_device("gpu_utilization_percent", is_kept=True),
    _of_device("gpu_meter", grow=1, most=20),
    _of_device("tensor", is_worth=_knows_tensor, is_blank=_is_of_processes),
    _of_device("history", is_blank=_has_no_history, from_width=130, grow=2, most=60),
    _of_device("memory", draw=_memory, is_kept=True),
    _of_device("memory_percent", is_blank=_has_no_total),
    _of_device("memory_meter", grow=1, most=20, is_blank=_has_no_total),
    _of_device("temperature_c", is_blank=_is_of_processes),
    Column("power", "Power", 11, draw=_power, align=">", is_worth=_knows_power),
    Column("user", "User", 8, lambda row: (row.user, "plain"), is_worth=_knows_user, from_width=96),
    Column("note", "", 10, _note, grow=6, most=60, from_width=76),
)
"""All columns; what does not fit is dropped from the right."""


def draw_fleet_row(layout: TableLayout[FleetRow], row: FleetRow, width: int) -> Line:
    """A row in its columns; a node without GPUs has its name and a sentence across all other columns."""
    ellipsis = row.appearance.glyphs.ellipsis
    if row.kind is not RowKind.NODE or row.gpus:
        return draw_row(layout, row, ellipsis)
    ((_, name_width), *_) = layout
    words, role = row.note
    sentence = f" {f'{row.appearance.glyphs.alarm} ' * (role == 'alarm')}{words}"
    return join((*_name(row, name_width), (fit(sentence, max(0, width - name_width), ellipsis=ellipsis), role)))


def draw_fleet_head(layout: TableLayout[FleetRow], view: FleetView, appearance: Appearance) -> Line:
    """Column titles, the sorted one marked."""
    titled = tuple(
        (_JOBS_FIRST if view.is_by_job and column.name == "name" else column, width) for column, width in layout
    )
    return draw_sorted_titles(titled, FLEET_ORDER_BY_NAME[view.order], appearance.glyphs, is_reversed=view.is_reversed)

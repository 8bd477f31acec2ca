"""A process as one line of the table: the columns are data."""

from __future__ import annotations

from collections.abc import Iterable

from gputui.model.machine.process import OTHER_NAMESPACES, Process, ProcessState
from gputui.model.reading import Absent, Reading, value_of
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.columns import Column
from gputui.ui.drawing.line import Line, Piece, fit, join
from gputui.ui.drawing.monitor.process_rows import ProcessRow
from gputui.units import format_bytes_short, format_duration

BLANK: Piece = ("", "plain")

GONE = {ProcessState.VANISHED, ProcessState.ZOMBIE, *OTHER_NAMESPACES}
"""States in which the host knows nothing more about the PID."""


def _amount(reading: Reading[int], appearance: Appearance, role: str = "plain") -> Piece:
    return (appearance.absent, "dim") if isinstance(reading, Absent) else (format_bytes_short(reading), role)


def _percent(reading: Reading[float], appearance: Appearance) -> Piece:
    return (appearance.absent, "dim") if isinstance(reading, Absent) else (f"{reading:.0f}", "plain")


def _pid(row: ProcessRow) -> Piece:
    return (str(row.process.pid or "?") if row.process else "", "plain")


def _used(row: ProcessRow) -> Piece:
    return _amount(row.used_bytes, row.appearance, "accent") if row.use or row.device or row.process is None else BLANK


def _share(row: ProcessRow) -> Piece:
    value = value_of(row.used_bytes)
    if value is None or not row.device_total_bytes:
        return BLANK
    return (f"{100 * value / row.device_total_bytes:.0f}%", "dim")


def _rank(row: ProcessRow) -> Piece:
    place = row.process.rank if row.process else None
    return (f"{place.rank}/{place.world_size}", "dim") if place else BLANK


def _workers(row: ProcessRow) -> Piece:
    crew = row.process.workers if row.process else None
    return (f"{crew.count}", "dim") if crew and crew.count else BLANK


def _user(row: ProcessRow) -> Piece:
    return (value_of(row.process.user) or "", "plain") if row.process else BLANK


def _owner_name(row: ProcessRow) -> str:
    if row.prefix:  # in the tree, the heading says it
        return ""
    owner = value_of(row.process.owner) if row.process else None
    return owner.name if owner else ""


def _is_any_owned(rows: Iterable[ProcessRow]) -> bool:
    return any(_owner_name(row) for row in rows)


def _job(row: ProcessRow) -> Piece:
    return (_owner_name(row), "plain")


def _time(row: ProcessRow) -> Piece:
    started = row.process.identity.started if row.process else None
    return BLANK if started is None else (format_duration(row.time - started), "dim")


def _if_process(row: ProcessRow, piece: Piece) -> Piece:
    return piece if row.process or row.prefix else BLANK


def draw_command(row: ProcessRow, width: int) -> Line:
    """The tree's branches, the sign of a probe, and the command or what replaces it."""
    process, appearance = row.process, row.appearance
    prefix: list[Piece] = [(row.prefix, "dim")] if row.prefix else []
    if process is None:
        words: Piece = (row.note, "dim")
    else:
        if process.has_probe:
            prefix.append((f"{appearance.glyphs.probe} ", "accent"))
        words = _words_of(process, row.command)
    room = width - sum(len(text) for text, _ in prefix)
    if room <= 0:
        return ((" " * width, "plain"),)
    return join((*prefix, (fit(words[0], room, ellipsis=appearance.glyphs.ellipsis), words[1])))


def _words_of(process: Process, shown: Reading[str]) -> Piece:
    command = value_of(shown)
    if process.state in GONE:
        return (f"({process.state.value}) {command or ''}", "dim")
    if process.state is ProcessState.STOPPED:
        return (f"(stopped) {command or ''}", "fair")
    return (f"({shown.reason})", "dim") if isinstance(shown, Absent) else (shown, "plain")


PROCESS_TABLE_COLUMNS: tuple[Column[ProcessRow], ...] = (
    Column("device", "GPU", 4, lambda row: (row.device, "title"), align=">", is_kept=True),
    Column("pid", "PID", 7, _pid, align=">", is_kept=True),
    Column("user", "User", 8, _user),
    Column("job", "Job", 12, _job, from_width=96, grow=1, most=30, is_worth=_is_any_owned),
    Column("type", "Type", 4, lambda row: (row.use.kind if row.use else "", "dim"), from_width=96),
    Column("memory", "GPU mem", 8, _used, align=">", is_kept=True),
    Column("share", "%", 4, _share, align=">", from_width=96),
    Column("sm", "SM%", 4, lambda row: _percent(row.use.sm_percent, row.appearance) if row.use else BLANK, align=">"),
    Column("cpu", "CPU%", 5, lambda row: _if_process(row, _percent(row.cpu_percent, row.appearance)), align=">"),
    Column("rss", "RSS", 6, lambda row: _if_process(row, _amount(row.rss_bytes, row.appearance)), align=">"),
    Column("workers", "Wrk", 3, _workers, align=">", from_width=110),
    Column("time", "Time", 6, _time, align=">"),
    Column("rank", "Rank", 6, _rank, align=">", from_width=120),
    Column("command", "Command", 12, draw=draw_command, grow=9, is_kept=True),
)
"""All columns; the settings choose among them by name."""

PROCESS_COLUMN_BY_NAME = {column.name: column for column in PROCESS_TABLE_COLUMNS}

"""`gputui report`: who used the GPUs, who held them without use, and what was wrong."""

from __future__ import annotations

import os
import time
from pathlib import Path

from gputui.archive.place import file_to_read
from gputui.archive.report import Report, document, report
from gputui.archive.store import reading
from gputui.commands.parser import Parser, duration_of
from gputui.model.machine.programs import program_of
from gputui.once.table import Column, table
from gputui.output import output_width, put, put_document
from gputui.settings import Settings
from gputui.units import format_bytes, format_duration

_PIPE_COLUMNS = 100


def run(arguments: list[str], _settings: Settings | None = None) -> int:
    """Print the report."""
    parser = Parser(
        prog="gputui report",
        usage="gputui report [--since TIME] [--until TIME] [--user USER] [--file FILE] [--json]",
        description="GPU-hours by user and job, processes, and findings with their times, as kept by `gputui record`.",
    )
    parser.add_argument("--since", metavar="TIME", default="7d", help="how far back, such as 12h or 7d (default: 7d)")
    parser.add_argument("--until", metavar="TIME", help="how far back to end, such as 6h (default: now)")
    parser.add_argument("--user", default="", help="only what this user had")
    parser.add_argument("--file", metavar="FILE", help="another file than the one that gputui record writes")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parsed = parser.parse(arguments)
    now = time.time()
    begin = now - duration_of("--since", parsed.since)
    end = now - duration_of("--until", parsed.until) if parsed.until else now
    with reading(Path(parsed.file or file_to_read(os.environ))) as database:
        found = report(database, begin, end, parsed.user)
    if parsed.json:
        put_document(document(found))
    else:
        put(text(found, output_width(_PIPE_COLUMNS)))
    return 0


_DEVICES = (
    Column("GPU", lambda row: row.device),
    Column("NAME", lambda row: row.name, is_text=True),
    Column("WATCHED", lambda row: f"{row.watched:.1f} h"),
    Column("ACTIVE", lambda row: f"{row.active:.1f} h"),
    Column("HELD, IDLE", lambda row: f"{row.idle_held:.1f} h"),
    Column("IDLE", lambda row: f"{row.idle:.1f} h"),
)
_HOLDERS = (
    Column("USER", lambda row: row.user or "-", is_text=True),
    Column("JOB", lambda row: row.job or "-", is_text=True),
    Column("ACTIVE", lambda row: f"{row.active:.1f} h"),
    Column("HELD, IDLE", lambda row: f"{row.idle_held:.1f} h"),
    Column("MOST HELD", lambda row: format_bytes(row.most_held_bytes)),
)
_PROCESSES = (
    Column("GPU", lambda row: row.device),
    Column("PID", lambda row: str(row.pid)),
    Column("USER", lambda row: row.user or "-", is_text=True),
    Column("FROM", lambda row: _when(row.since), is_text=True),
    Column("FOR", lambda row: format_duration(row.until - row.since)),
    Column("COMPUTED LAST", lambda row: _when(row.active) if row.active else "never", is_text=True),
    Column("MOST HELD", lambda row: format_bytes(row.held_bytes)),
    Column("ALLOCATED", lambda row: "-" if row.allocated_bytes is None else format_bytes(row.allocated_bytes)),
    Column("COMMAND", lambda row: program_of(row.command) if row.command else "-", is_text=True),
)
_PROCESSES_AT_MOST = 20
_FINDINGS = (
    Column("FROM", lambda row: _when(row.since), is_text=True),
    Column("FOR", lambda row: format_duration(row.until - row.since)),
    Column("WHERE", lambda row: row.where, is_text=True),
    Column("FINDING", lambda row: row.title, is_text=True),
)


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def text(found: Report, width: int) -> str:
    """The report in lines of at most `width` columns."""
    if not found.end:
        return "Nothing was recorded in this time.\n"
    lines = [f"{_when(found.begin)} to {_when(found.end)}, hours of GPUs"]
    tables = (
        (_DEVICES, found.devices),
        (_HOLDERS, found.holders),
        (_PROCESSES, found.processes[:_PROCESSES_AT_MOST]),
        (_FINDINGS, found.findings),
    )
    for columns, rows in tables:
        if rows:
            lines += ["", *table(columns, rows, width)]
        if columns is _PROCESSES and len(found.processes) > len(rows):
            lines.append(f"and {len(found.processes) - len(rows)} more, which --json has")
    return "\n".join(lines) + "\n"

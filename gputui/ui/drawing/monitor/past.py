"""An hour of the record on one page: each GPU over the hour, the processes that were on them, and what was wrong."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from gputui.model.machine.programs import program_of
from gputui.model.past import Past, PastFinding, PastGpu, PastProcess
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.columns import Column, draw_row, draw_titles, lay_out, worth_showing
from gputui.ui.drawing.graphs import Graph, area_height, draw_graphs, points_across
from gputui.ui.drawing.line import Line, Piece, fit, indented, wrap
from gputui.units import format_bytes, format_bytes_short, format_duration


def draw_past_page(past: Past, now: float, size: tuple[int, int], appearance: Appearance) -> list[Line]:
    """The page for a screen of `size` (width, height), which it may exceed."""
    width, height = size
    lines: list[Line] = [((fit(f"{hour_of(past.begin, past.end)}, {_ago(past, now)}", width), "title"),)]
    if not past.gpus:
        bounds = f"The record goes from {_day_and_time(past.first)} to {_day_and_time(past.last)}."
        return [*lines, *wrap(f"Nothing was recorded in this hour. {bounds if past.last else ''}", width, "dim")]
    table, findings = _processes(past, width, appearance), _findings(past.findings, width)
    room = height - len(lines) - len(table) - len(findings)
    count = points_across(width, len(past.gpus))
    graphs = [_graph(gpu, past, count) for gpu in past.gpus]
    ends = (_clock(past.begin), _clock(past.end))
    area = area_height(width, len(graphs), room)
    lines += draw_graphs(graphs, width, area, (past.end - past.begin) / count, appearance, ends=ends)
    return [*lines, *findings, *table]


def hour_of(begin: float, end: float) -> str:
    """ "Saturday, 2026-11-28, 03:00 to 04:00"."""
    return f"{time.strftime('%A, %Y-%m-%d, %H:%M', time.localtime(begin))} to {_clock(end)}"


def _graph(gpu: PastGpu, past: Past, count: int) -> Graph:
    mean, used_bytes = gpu.mean_percent, gpu.most_used_bytes
    shown = [] if mean is None else [f"{mean:.0f}%"]
    shown += [] if used_bytes is None else [f"at most {format_bytes(used_bytes)}"]
    return Graph(f"GPU {gpu.label}", ", ".join(shown), gpu.points(past.begin, past.end, count), 100.0, "good", "100%")


def _processes(past: Past, width: int, appearance: Appearance) -> list[Line]:
    """The processes of the hour, the largest first; times of begin and end only if they are in this hour."""

    def begin(process: PastProcess) -> str:
        return _clock(process.since) if process.since > past.begin else "before"

    def end(process: PastProcess) -> str:
        return _clock(process.until) if process.until < past.end else ""

    def computed(process: PastProcess) -> str:
        if not process.active:
            return "never"
        return "" if process.active > past.end else _clock(process.active) if process.active > past.begin else "before"

    columns = (
        Column[PastProcess]("gpu", "GPU", 3, lambda process: (process.device, "title"), align=">"),
        Column[PastProcess]("pid", "PID", 7, lambda process: (str(process.pid), "plain"), align=">"),
        Column[PastProcess]("user", "User", 8, lambda process: (process.user, "plain")),
        Column[PastProcess]("job", "Job", 10, lambda process: (process.job, "plain"), from_width=96),
        Column[PastProcess]("begin", "From", 6, lambda process: (begin(process), "plain")),
        Column[PastProcess]("end", "To", 5, lambda process: (end(process), "plain")),
        Column[PastProcess]("active", "Computed", 8, lambda process: (computed(process), "plain")),
        Column[PastProcess]("held", "Most", 6, lambda row: (format_bytes_short(row.held_bytes), "accent"), align=">"),
        Column[PastProcess]("allocated", "Alloc.", 6, _allocated, align=">", is_worth=_is_any_allocated),
        Column[PastProcess]("command", "Command", 12, lambda row: (program_of(row.command), "plain"), grow=1),
    )
    if not past.processes:
        return [((fit("No process held memory on a GPU.", width), "dim"),)]
    layout = lay_out(worth_showing(columns, past.processes), width)
    return [draw_titles(layout), *(draw_row(layout, process, appearance.glyphs.ellipsis) for process in past.processes)]


def _allocated(process: PastProcess) -> Piece:
    return ("" if process.allocated_bytes is None else format_bytes_short(process.allocated_bytes), "plain")


def _is_any_allocated(processes: Iterable[PastProcess]) -> bool:
    return any(process.allocated_bytes is not None for process in processes)


def _findings(findings: Sequence[PastFinding], width: int) -> list[Line]:
    lines: list[Line] = []
    for finding in findings:
        lasted = f"from {_day_and_time(finding.since)}, for {format_duration(finding.until - finding.since)}"
        lines += indented(f"{finding.where}: {finding.title} ({lasted})", width, " ! ", "poor")
    return [*lines, ()] if lines else []


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M", time.localtime(seconds))


def _day_and_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _ago(past: Past, now: float) -> str:
    return f"{format_duration(now - past.begin)} ago" if now > past.end else "until now"

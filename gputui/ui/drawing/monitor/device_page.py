"""Everything about one device: sentences about its state, graphs of its history, its processes, all its readings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gputui.model.history import SPANS_S, History
from gputui.model.machine.device import THROTTLE_SENTENCES, Device
from gputui.model.machine.device_readings import GRAPHED, GROUPS, READINGS
from gputui.model.machine.finding import MachineFinding
from gputui.model.machine.reading_declaration import DeviceReading, ReadingGraph
from gputui.model.reading import Absent, AbsentKind, Reading
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.columns import draw_row, draw_titles, lay_out, worth_showing
from gputui.ui.drawing.graphs import Graph, area_height, draw_graphs, points_across
from gputui.ui.drawing.line import Line, fit, join, wrap
from gputui.ui.drawing.monitor.findings import draw_own_findings
from gputui.ui.drawing.monitor.process_rows import ProcessRow
from gputui.ui.drawing.monitor.processes import PROCESS_TABLE_COLUMNS

PROCESSES_AT_MOST = 10
"""Processes on this page; the overview's list has all."""

NOT_YET = frozenset({AbsentKind.NOT_READ_YET, AbsentKind.ON_REQUEST, AbsentKind.NOT_SAMPLED})
"""Kinds of absence that last a moment: the reading keeps its place."""

MISSING_LISTED = 8
"""A MIG instance has few readings of its own: if it lacks more than this many, they are not listed by name."""

_LABEL_WIDTH = 19
_PROCESS_COLUMNS = tuple(column for column in PROCESS_TABLE_COLUMNS if column.name != "device")


def draw_device_page(
    device: Device,
    processes: Sequence[ProcessRow],
    history: History,
    zoom: int,
    size: tuple[int, int],
    appearance: Appearance,
    findings: Iterable[MachineFinding] = (),
) -> list[Line]:
    """The page for a screen of `size` (width, height), which it may exceed; with the device's processes, findings."""
    width, height = size
    lines: list[Line] = [((fit(f"Device {device.label}  {device.name}", width), "title"),)]
    lines += wrap(device.uuid or "UUID: not reported by the driver", width, "dim")
    if device.lost:
        lines += wrap(f"{appearance.glyphs.alarm} {device.lost.sentence}", width, "alarm")
        findings = [finding for finding in findings if finding.kind != "lost"]
    for problem in device.problems:
        lines += wrap(problem, width, "poor")
    lines += draw_own_findings(findings, history.time, width)
    lines += _clock_sentences(device, width)
    table = _processes(processes, width, appearance)
    readings = _readings(device, width, appearance)
    graphs = _graphs(device, history, zoom, width)
    room = height - len(lines) - len(table) - len(readings)
    lines += draw_graphs(graphs, width, area_height(width, len(graphs), room), SPANS_S[zoom], appearance)
    return [*lines, *table, *readings]


def _graphs(device: Device, history: History, zoom: int, width: int) -> list[Graph]:
    """A graph for each reading that has a value, may get one, or whose newest point in the history is not 0."""
    shown = [
        reading
        for reading in GRAPHED
        if not _is_missing(getattr(device, reading.field)) or any(history.last(device.key, reading.series, 1))
    ]
    count = points_across(width, len(shown))
    return [
        _graph(reading, reading.graph, device, history.last(device.key, reading.series, count, zoom))
        for reading in shown
        if reading.graph
    ]


def _is_missing(value: Reading[object]) -> bool:
    return isinstance(value, Absent) and value.kind not in NOT_YET


def _graph(reading: DeviceReading, graph: ReadingGraph, device: Device, points: list[float | None]) -> Graph:
    value, top = reading.text(device), graph.top(device)
    highest = max((point for point in points if point is not None), default=None)
    highest_or_fixed = highest if graph.top_otherwise is None else graph.top_otherwise
    upper = highest_or_fixed if isinstance(top, Absent) else top
    upper_shown = (graph.write or reading.unit.short)(upper) if upper else ""
    shown = value.reason if isinstance(value, Absent) else value
    return Graph(graph.title, shown, points, upper or 1.0, graph.role, upper_shown)


def _clock_sentences(device: Device, width: int) -> list[Line]:
    """Why the device's clocks are lower, in sentences."""
    if isinstance(device.throttle_reasons, Absent):
        return []
    sentences = [
        (THROTTLE_SENTENCES.get(reason, reason), "dim" if reason == "gpu_idle" else "fair")
        for reason in device.throttle_reasons
    ]
    return [line for sentence, role in sentences for line in wrap(sentence, width, role)]


def _processes(rows: Sequence[ProcessRow], width: int, appearance: Appearance) -> list[Line]:
    """The processes on the device, a line each."""
    if not rows:
        return [((fit("No process holds memory on this device.", width), "dim"),), ()]
    layout = lay_out(worth_showing(_PROCESS_COLUMNS, rows), width)
    lines = [draw_titles(layout)]
    lines += [draw_row(layout, row, appearance.glyphs.ellipsis) for row in rows[:PROCESSES_AT_MOST]]
    if len(rows) > PROCESSES_AT_MOST:
        more = f"and {len(rows) - PROCESSES_AT_MOST} more: /gpu=={rows[0].device} on the overview shows them all"
        lines.append(((fit(more, width), "dim"),))
    return [*lines, ()]


def _readings(device: Device, width: int, appearance: Appearance) -> list[Line]:
    """Groups of readings in columns, no group split; then what the device does not report, by the reason."""
    abreast = max(1, min(4, width // 38))
    column_width = (width - 2 * (abreast - 1)) // abreast
    columns: list[list[Line]] = [[] for _ in range(abreast)]
    missing = _missing(device)
    for group in GROUPS:
        present = [(name, value) for name, value in _rows(group, device) if _reason(value) not in missing]
        if present:
            shortest = min(columns, key=len)
            shortest += _group(group, present, column_width, appearance)
    height = max(len(column) for column in columns)
    blank: Line = ((" " * column_width, "plain"),)
    padded = [column + [blank] * (height - len(column)) for column in columns]
    lines = [_row([column[row] for column in padded]) for row in range(height)]
    for reason, groups in missing.items():
        listed = "; ".join(f"{group} ({', '.join(names)})" for group, names in groups.items())
        if device.mig and sum(map(len, groups.values())) > MISSING_LISTED:
            listed = f"The other readings, which are on the screen of GPU {device.mig.parent}"
        lines += wrap(f"{listed}: {reason}.", width, "dim")
    return lines


def _missing(device: Device) -> dict[str, dict[str, list[str]]]:
    """The labels of absent readings by reason and group, where more than one have the same reason."""
    missing: dict[str, dict[str, list[str]]] = {}
    for group in GROUPS:
        for name, value in _rows(group, device):
            if _reason(value):
                missing.setdefault(_reason(value), {}).setdefault(group, []).append(name)
    return {reason: groups for reason, groups in missing.items() if sum(map(len, groups.values())) > 1}


def _reason(value: Reading[object]) -> str:
    return value.reason if isinstance(value, Absent) and _is_missing(value) else ""


def _rows(group: str, device: Device) -> list[tuple[str, Reading[str]]]:
    readings = (reading for reading in READINGS if reading.group == group)
    return [(row.label, reading.text(device, row)) for reading in readings for row in reading.lines]


def _row(parts: Iterable[Line]) -> Line:
    pieces = [piece for part in parts for piece in (*part, ("  ", "plain"))]
    return join(pieces[:-1])


def _group(group: str, rows: Iterable[tuple[str, Reading[str]]], width: int, appearance: Appearance) -> list[Line]:
    lines: list[Line] = [((fit(f"{group} ".ljust(width, appearance.glyphs.rule), width), "title"),)]
    for name, value in rows:
        lines += _line(name, value, width, appearance)
    return [*lines, ((" " * width, "plain"),)]


def _line(name: str, value: Reading[str], width: int, appearance: Appearance) -> list[Line]:
    """A reading in as many lines as it needs; a reading that is absent only for a moment takes one line."""
    text, role = (value.reason, "dim") if isinstance(value, Absent) else (value, "plain")
    text = text.replace("°", "") if appearance.is_ascii else text
    room = max(1, width - _LABEL_WIDTH)
    is_short = isinstance(value, Absent) and value.kind in NOT_YET
    cut = fit(text, room, ellipsis=appearance.glyphs.ellipsis)
    wrapped = [cut] if is_short else [words for ((words, _),) in wrap(text, room)] or [""]
    labels = [f"{name} ", *[""] * (len(wrapped) - 1)]
    return [
        join(((fit(before, _LABEL_WIDTH), "dim"), (fit(words, room), role)))
        for before, words in zip(labels, wrapped, strict=True)
    ]

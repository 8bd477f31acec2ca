"""Everything about one device: graphs of its history, all its readings in columns, and sentences about its state."""

from __future__ import annotations

from collections.abc import Iterable

from gputui.model.device import THROTTLE_SENTENCES, Device
from gputui.model.device_readings import GRAPHED, GROUPS, READINGS
from gputui.model.history import SPANS_S, History
from gputui.model.reading import Absent, Reading
from gputui.model.reading_declaration import DeviceReading, ReadingGraph
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.devices import label
from gputui.ui.drawing.graphs import Graph, draw_graphs, graph_width
from gputui.ui.drawing.line import Line, fit, join, wrap


def draw_device_page(
    device: Device, history: History, zoom: int, size: tuple[int, int], appearance: Appearance
) -> list[Line]:
    """The page for a screen of `size` (width, height); it may be longer than the screen."""
    width, height = size
    head = f"Device {label(device)}  {device.name}"
    lines: list[Line] = [((fit(head, width), "title"),)]
    if device.lost:
        lines += wrap(f"{appearance.glyphs.alarm} {device.lost.sentence}", width, "alarm")
    lines += _sentences(device, width)
    graphs = _graphs(device, history, zoom, width)
    rows = -(-len(graphs) * (graph_width(width, len(graphs)) + 2) // (width + 2))
    tall = max(2, min(8, (height - 12) // max(1, rows) - 1))
    lines += draw_graphs(graphs, width, tall, appearance)
    span = SPANS_S[zoom]
    lines.append(((fit(f"{span:g} s per cell; z zooms", width, ">"), "dim"),))
    return lines + _readings(device, width, appearance)


def _graphs(device: Device, history: History, zoom: int, width: int) -> list[Graph]:
    count = graph_width(width, len(GRAPHED))
    return [
        _graph(reading, reading.graph, device, history.last(device.key, reading.series, count, zoom))
        for reading in GRAPHED
        if reading.graph
    ]


def _graph(reading: DeviceReading, graph: ReadingGraph, device: Device, points: list[float | None]) -> Graph:
    value, top = reading.text(device), graph.top(device)
    if isinstance(top, Absent):
        highest = max((point for point in points if point is not None), default=1.0)
        top = highest if graph.top_otherwise is None else graph.top_otherwise
    return Graph(graph.title, value.reason if isinstance(value, Absent) else value, points, top or 1.0, graph.role)


_ECC = (
    "Memory errors that ECC could not correct since the driver was loaded: {}. `dmesg | grep -i xid` shows when; if "
    "they continue, stop the GPU's processes and reset it, and have the board checked if that does not help."
)


def _sentences(device: Device, width: int) -> list[Line]:
    """What is wrong with the device, then why its clocks are lower, in sentences."""
    sentences = [(problem, "poor") for problem in device.problems]
    if not isinstance(device.ecc_uncorrected, Absent) and device.ecc_uncorrected:
        sentences.append((_ECC.format(device.ecc_uncorrected), "poor"))
    if not isinstance(device.throttle_reasons, Absent):
        sentences += [
            (THROTTLE_SENTENCES.get(reason, reason), "dim" if reason == "gpu_idle" else "fair")
            for reason in device.throttle_reasons
        ]
    return [line for sentence, role in sentences for line in wrap(sentence, width, role)]


def _readings(device: Device, width: int, appearance: Appearance) -> list[Line]:
    """Groups of readings flowed into columns; a group is never split."""
    abreast = max(1, min(4, width // 38))
    column_width = (width - 2 * (abreast - 1)) // abreast
    columns: list[list[Line]] = [[] for _ in range(abreast)]
    for group in GROUPS:
        shortest = min(columns, key=len)
        shortest += _group(group, device, column_width, appearance)
    height = max(len(column) for column in columns)
    blank: Line = ((" " * column_width, "plain"),)
    padded = [column + [blank] * (height - len(column)) for column in columns]
    return [_row([column[row] for column in padded]) for row in range(height)]


def _row(parts: Iterable[Line]) -> Line:
    pieces = [piece for part in parts for piece in (*part, ("  ", "plain"))]
    return join(pieces[:-1])


def _group(group: str, device: Device, width: int, appearance: Appearance) -> list[Line]:
    lines: list[Line] = [((fit(f"{group} ".ljust(width, appearance.glyphs.rule), width), "title"),)]
    lines += [
        _line(row.label, reading.text(device, row), width, appearance)
        for reading in READINGS
        for row in reading.rows
        if row.group == group
    ]
    return [*lines, ((" " * width, "plain"),)]


def _line(label: str, value: Reading[str], width: int, appearance: Appearance) -> Line:
    text, role = (value.reason, "dim") if isinstance(value, Absent) else (value, "plain")
    text = text.replace("°", "") if appearance.is_ascii else text
    return join(((fit(f"{label} ", 19), "dim"), (fit(text, width - 19, ellipsis=appearance.glyphs.ellipsis), role)))

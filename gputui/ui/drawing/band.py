"""The band of graphs on the overview of a large terminal: devices together, and the host."""

from __future__ import annotations

from gputui.model.history import ALL_DEVICES, HOST, SPANS_S, History
from gputui.model.machine.snapshot import Snapshot
from gputui.model.reading import Absent
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.graphs import Graph, draw_graphs, points_across
from gputui.ui.drawing.line import Line
from gputui.ui.drawing.monitor.devices import memory_of
from gputui.units import format_bytes, format_bytes_short

GRAPHS_IN_BAND = 4


def draw_band(
    snapshot: Snapshot, history: History, zoom: int, size: tuple[int, int], appearance: Appearance
) -> list[Line]:
    """Four graphs beside each other in this width and height, with the history in resolution `zoom`."""
    width, height = size
    graphs = band_graphs(snapshot, history, points_across(width, GRAPHS_IN_BAND), zoom)
    return draw_graphs(graphs, width, max(2, height - 2), SPANS_S[zoom], appearance)[:height]


def band_graphs(snapshot: Snapshot, history: History, count: int, zoom: int = 0) -> list[Graph]:
    """Utilisation and memory of all devices together, and the host's CPU and memory."""
    boards = [device for device in snapshot.devices.devices if device.mig is None]
    memories = [memory for device in boards if (memory := memory_of(device))]
    total = sum(memory.total_bytes for memory in memories)
    used = sum(memory.used_bytes for memory in memories)
    utilization = history.last(ALL_DEVICES, "gpu_utilization_percent", count, zoom)
    now = next((point for point in reversed(utilization) if point is not None), None)
    host = snapshot.host
    cpu = "" if isinstance(host.cpu_percent, Absent) else f"{host.cpu_percent:.0f}%"
    resident = "" if isinstance(host.memory, Absent) else format_bytes(host.memory.used_bytes)
    whole = 1.0 if isinstance(host.memory, Absent) else host.memory.total_bytes
    whole_shown = "" if isinstance(host.memory, Absent) else format_bytes_short(whole)
    return [
        Graph("GPU mean", "" if now is None else f"{now:.0f}%", utilization, 100, top_shown="100%"),
        Graph(
            "GPU memory",
            format_bytes(used) if memories else "",
            history.last(ALL_DEVICES, "used_bytes", count, zoom),
            total,
            "accent",
            format_bytes_short(total) if memories else "",
        ),
        Graph("CPU", cpu, history.last(HOST, "cpu_percent", count, zoom), 100, top_shown="100%"),
        Graph("RAM", resident, history.last(HOST, "used_bytes", count, zoom), whole, "accent", whole_shown),
    ]

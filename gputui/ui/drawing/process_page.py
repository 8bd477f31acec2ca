"""Everything about one process: its graphs, its tree, what it waits for, and its environment."""

from __future__ import annotations

from collections.abc import Iterator

from gputui.model.history import SPANS_S, History
from gputui.model.process import Process, ProcessDetails, TreeEntry
from gputui.model.reading import Absent, Reading
from gputui.model.snapshot import Snapshot
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.devices import label, memory_of
from gputui.ui.drawing.graphs import Graph, draw_graphs, graph_width
from gputui.ui.drawing.line import Line, fit, join, wrap
from gputui.units import format_bytes, format_bytes_short, format_duration, format_rate

ENVIRONMENT = "Environment"
"""The heading that `e` scrolls to."""

DEPTH_AT_MOST = 20
"""How far the tree is indented."""


def history_owner(process: Process) -> str:
    """The key of a process in the history."""
    return f"process {process.identity.pid} {process.identity.started}"


def draw_process_page(
    process: Process,
    details: ProcessDetails | str,
    snapshot: Snapshot,
    history: History,
    zoom: int,
    size: tuple[int, int],
    appearance: Appearance,
) -> list[Line]:
    """The page for a screen of `size` (width, height), which it may exceed; `details` may be why there are none."""
    width, height = size
    lines: list[Line] = [((fit(f"Process {process.pid}  {_words(process.command)}", width), "title"),)]
    graphs = _graphs(process, snapshot, history, zoom, width)
    lines += draw_graphs(graphs, width, max(2, min(6, height // 5)), appearance)
    lines.append(((fit(f"{SPANS_S[zoom]:g} s per cell; z zooms", width, ">"), "dim"),))
    lines += _facts(process, None if isinstance(details, str) else details, snapshot.time, width)
    if isinstance(details, str):
        return [*lines, *wrap(details, width, "dim")]
    lines += [_heading("Tree", width, appearance), *(_branch(entry, details, width) for entry in details.tree)]
    if details.unshown_descendants:
        lines.append(((fit(f"and {details.unshown_descendants:,} more processes below it", width), "dim"),))
    return lines + _environment(details, width, appearance)


def _graphs(process: Process, snapshot: Snapshot, history: History, zoom: int, width: int) -> list[Graph]:
    owner = history_owner(process)
    devices = {device.key: device for device in snapshot.devices.devices}
    uses = [use for use in process.uses if use.device in devices]
    count = graph_width(width, len(uses) + 2)
    graphs = []
    for use in uses:
        device = devices[use.device]
        memory = memory_of(device)
        shown = _words(use.used_bytes) if isinstance(use.used_bytes, Absent) else format_bytes(use.used_bytes)
        points = history.last(owner, f"used_bytes {use.device}", count, zoom)
        top = memory.total_bytes if memory else _highest(points)
        graphs.append(Graph(f"Memory on GPU {label(device)}", shown, points, top, "accent"))
    resident = history.last(owner, "rss_bytes", count, zoom)
    shown = process.rss_bytes.reason if isinstance(process.rss_bytes, Absent) else format_bytes(process.rss_bytes)
    graphs.append(Graph("Host memory", shown, resident, _highest(resident), "accent"))
    cpu = history.last(owner, "cpu_percent", count, zoom)
    shown = process.cpu_percent.reason if isinstance(process.cpu_percent, Absent) else f"{process.cpu_percent:.0f}%"
    graphs.append(Graph("CPU", shown, cpu, max(100.0, _highest(cpu))))
    return graphs


def _highest(points: list[float | None]) -> float:
    return max((point for point in points if point is not None), default=1.0) or 1.0


def _words(reading: Reading[object]) -> str:
    return reading.reason if isinstance(reading, Absent) else str(reading)


def _facts(process: Process, details: ProcessDetails | None, now: float, width: int) -> list[Line]:
    lines: list[Line] = []
    for name, shown in _all_facts(process, details, now):
        first, *rest = wrap(shown, max(10, width - 20)) or [()]
        lines.append(join(((fit(name, 20), "dim"), *first)))
        lines += [join(((" " * 20, "plain"), *line)) for line in rest]
    return lines


def _all_facts(process: Process, details: ProcessDetails | None, now: float) -> Iterator[tuple[str, str]]:
    started = process.identity.started
    yield "state", process.state.value
    yield "user", _words(process.user)
    if started is not None:
        yield "running for", format_duration(now - started)
    if process.rank:
        launcher = f", launched by PID {process.rank.launcher_pid}" if process.rank.launcher_pid else ""
        yield "rank", f"{process.rank.rank} of {process.rank.world_size}{launcher}"
    if process.workers and process.workers.count:
        crew = process.workers
        kind = "shared pages counted once" if crew.is_proportional else "shared pages counted more than once"
        yield "workers", f"{crew.count}, {crew.cpu_percent:.0f}% CPU, {format_bytes(crew.resident_bytes)} ({kind})"
    if details is None:
        return
    yield "waits for", _words(details.waiting_for)
    yield "threads", _words(details.threads)
    yield "open files", _words(details.open_files)
    for name, reading in (("PSS", details.pss_bytes), ("shared", details.shared_bytes), ("swap", details.swap_bytes)):
        yield name, reading.reason if isinstance(reading, Absent) else format_bytes(reading)
    for name, rate in (("reads", details.read_bytes_per_s), ("writes", details.write_bytes_per_s)):
        yield name, rate.reason if isinstance(rate, Absent) else format_rate(rate)
    yield "working directory", _words(details.working_directory)
    yield "executable", _words(details.executable)
    arguments = details.command_line
    yield "command line", arguments.reason if isinstance(arguments, Absent) else " ".join(arguments)


def _heading(title: str, width: int, appearance: Appearance) -> Line:
    return ((fit(f"{title} ".ljust(width, appearance.glyphs.rule), width), "title"),)


def _branch(entry: TreeEntry, details: ProcessDetails, width: int) -> Line:
    cpu = "" if isinstance(entry.cpu_percent, Absent) else f"{entry.cpu_percent:.0f}%"
    resident = "" if isinstance(entry.rss_bytes, Absent) else format_bytes_short(entry.rss_bytes)
    role = "accent" if entry.identity == details.identity else "plain"
    head = f"{entry.identity.pid:>8} {cpu:>5} {resident:>6}  {'  ' * min(entry.depth, DEPTH_AT_MOST)}"
    return join(((head, "dim"), (fit(entry.command, max(1, width - len(head))), role)))


def _environment(details: ProcessDetails, width: int, appearance: Appearance) -> list[Line]:
    lines = [_heading(ENVIRONMENT, width, appearance)]
    if isinstance(details.environment, Absent):
        return [*lines, *wrap(details.environment.reason, width, "dim")]
    for name, value in details.environment:
        lines.append(join(((f"{name}=", "dim"), (fit(value, max(1, width - len(name) - 1)), "plain"))))
    return lines

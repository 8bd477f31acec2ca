"""Everything about one process: its graphs, its tree, what it waits for, and its environment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gputui.explain.machine.record import history_owner
from gputui.model.history import SPANS_S, History
from gputui.model.machine.owner import Owner
from gputui.model.machine.process import Process, ProcessDetails, TreeEntry
from gputui.model.machine.programs import program_of
from gputui.model.machine.secrets import MASK, mask_arguments, mask_value
from gputui.model.machine.snapshot import Snapshot
from gputui.model.reading import Absent, Reading
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.graphs import Graph, area_height, draw_graphs, points_across
from gputui.ui.drawing.line import Line, fit, join, wrap
from gputui.ui.drawing.monitor.devices import memory_of
from gputui.ui.drawing.monitor.processes import GONE
from gputui.units import format_bytes, format_bytes_short, format_duration, format_rate

ENVIRONMENT = "Environment"
"""The heading that `e` scrolls to."""


class Shown(NamedTuple):
    """What the user chose to see of a process: `zoom` is an index into `SPANS_S`."""

    zoom: int = 0
    environment: bool = False
    secrets: bool = False


DEPTH_AT_MOST = 20
"""Levels by which the tree is indented at most."""


def draw_process_page(
    process: Process,
    details: ProcessDetails | str,
    snapshot: Snapshot,
    history: History,
    size: tuple[int, int],
    appearance: Appearance,
    shown: Shown,
) -> list[Line]:
    """The page for a screen of `size` (width, height), which it may exceed; `details` may say why there are none."""
    width, height = size
    command = process.command.reason if isinstance(process.command, Absent) else program_of(process.command)
    title: Line = ((fit(f"Process {process.pid}  {command}", width), "title"),)
    known = None if isinstance(details, str) else details
    body = _facts(process, known, snapshot.time, width, shown)
    body += wrap(details, width, "dim") if isinstance(details, str) else _tree(details, width, appearance)
    graphs = _graphs(process, snapshot, history, shown.zoom, width)
    tall = area_height(width, len(graphs), max(height // 3, height - 1 - len(body)))
    body = [*draw_graphs(graphs, width, tall, SPANS_S[shown.zoom], appearance), *body]
    return [title, *body, *(_environment(known, width, appearance, shown) if known else [])]


def _tree(details: ProcessDetails, width: int, appearance: Appearance) -> list[Line]:
    if not details.tree:
        return []
    lines = [_heading("Tree", width, appearance), *(_branch(entry, details, width) for entry in details.tree)]
    if details.unshown_descendants:
        lines.append(((fit(f"and {details.unshown_descendants:,} more processes below it", width), "dim"),))
    return lines


def _graphs(process: Process, snapshot: Snapshot, history: History, zoom: int, width: int) -> list[Graph]:
    owner = history_owner(process)
    devices = {device.key: device for device in snapshot.devices.devices}
    uses = [use for use in process.uses if use.device in devices]
    count = points_across(width, len(uses) + 2)
    graphs = []
    for use in uses:
        device = devices[use.device]
        memory = memory_of(device)
        shown = _words(use.used_bytes) if isinstance(use.used_bytes, Absent) else format_bytes(use.used_bytes)
        points = history.last(owner, f"used_bytes {use.device}", count, zoom)
        top = memory.total_bytes if memory else _highest(points)
        graphs.append(Graph(f"Memory on GPU {device.label}", shown, points, top, "accent", format_bytes_short(top)))
    return graphs + [
        graph for graph in _host_graphs(process, history, zoom, count) if _is_worth_drawing(graph, process)
    ]


def _host_graphs(process: Process, history: History, zoom: int, count: int) -> list[Graph]:
    owner = history_owner(process)
    resident = history.last(owner, "rss_bytes", count, zoom)
    resident_shown = (
        process.rss_bytes.reason if isinstance(process.rss_bytes, Absent) else format_bytes(process.rss_bytes)
    )
    highest = _highest(resident)
    cpu = history.last(owner, "cpu_percent", count, zoom)
    cpu_shown = process.cpu_percent.reason if isinstance(process.cpu_percent, Absent) else f"{process.cpu_percent:.0f}%"
    top = max(100.0, _highest(cpu))
    return [
        Graph("Host memory", resident_shown, resident, highest, "accent", format_bytes_short(highest)),
        Graph("CPU", cpu_shown, cpu, top, top_shown=f"{top:.0f}%"),
    ]


def _is_worth_drawing(graph: Graph, process: Process) -> bool:
    """Whether the graph has points or can get some: a process that ended before it was seen has none."""
    return process.state not in GONE or any(point is not None for point in graph.points)


def _highest(points: list[float | None]) -> float:
    return max((point for point in points if point is not None), default=1.0) or 1.0


def _words(reading: Reading[object]) -> str:
    return reading.reason if isinstance(reading, Absent) else str(reading)


def _facts(process: Process, details: ProcessDetails | None, now: float, width: int, shown: Shown) -> list[Line]:
    """A fact to a line; facts that are absent for the same reason share a sentence."""
    facts = list(_all_facts(process, details, now, shown))
    absent: dict[str, list[str]] = {}
    for name, value in facts:
        if isinstance(value, Absent):
            absent.setdefault(value.reason, []).append(name)
    lines: list[Line] = []
    for name, value in facts:
        if isinstance(value, Absent) and len(absent[value.reason]) > 1:
            continue
        first, *rest = wrap(_words(value), max(10, width - 20)) or [()]
        lines.append(join(((fit(name, 20), "dim"), *first)))
        lines += [join(((" " * 20, "plain"), *line)) for line in rest]
    for reason, names in absent.items():
        if len(names) > 1:
            lines += wrap(f"Not known: {', '.join(names)} ({reason}).", width, "dim")
    return lines


def _all_facts(
    process: Process, details: ProcessDetails | None, now: float, shown: Shown
) -> Iterator[tuple[str, Reading[object]]]:
    started = process.identity.started
    yield "state", process.state.value
    yield "user", process.user
    if started is not None:
        yield "running for", format_duration(now - started)
    if process.rank:
        launcher = f", launched by PID {process.rank.launcher_pid}" if process.rank.launcher_pid else ""
        yield "rank", f"{process.rank.rank} of {process.rank.world_size}{launcher}"
    yield from _owner_facts(process.owner)
    if process.workers and process.workers.count:
        crew = process.workers
        kind = "shared pages counted once" if crew.is_proportional else "shared pages counted more than once"
        yield "workers", f"{crew.count}, {crew.cpu_percent:.0f}% CPU, {format_bytes(crew.resident_bytes)} ({kind})"
    if details is None:
        return
    yield "waits for", details.waiting_for
    yield "threads", details.threads
    yield "open files", details.open_files
    for name, reading in (("PSS", details.pss_bytes), ("shared", details.shared_bytes), ("swap", details.swap_bytes)):
        yield name, reading if isinstance(reading, Absent) else format_bytes(reading)
    for name, rate in (("reads", details.read_bytes_per_s), ("writes", details.write_bytes_per_s)):
        yield name, rate if isinstance(rate, Absent) else format_rate(rate)
    yield "working directory", details.working_directory
    yield "executable", details.executable
    arguments = details.command_line
    if isinstance(arguments, Absent):
        yield "command line", arguments
    else:
        yield "command line", " ".join(arguments if shown.secrets else mask_arguments(arguments))


def _owner_facts(reading: Reading[Owner]) -> Iterator[tuple[str, Reading[object]]]:
    """Whose the process is, as far as there is anything to say."""
    if isinstance(reading, Absent):
        return
    job = reading.job and (f"{reading.job}, step {reading.step}" if reading.step else reading.job)
    if job and reading.job_source:
        job += f" (as {reading.job_source} says)" if "/" in reading.job_source else " (as its environment says)"
    container = reading.container and f"{reading.container} ({reading.runtime or 'unknown runtime'})"
    pod = f"{reading.namespace}/{reading.pod}" if reading.namespace else reading.pod
    facts = (
        ("Slurm job", job),
        ("pod", pod),
        ("container", container),
        ("unit", reading.unit),
        ("Ray job", reading.ray_job),
        ("Python environment", reading.environment),
        ("session", reading.session),
    )
    yield from ((name, value) for name, value in facts if value)


def _heading(title: str, width: int, appearance: Appearance) -> Line:
    return ((fit(f"{title} ".ljust(width, appearance.glyphs.rule), width), "title"),)


def _branch(entry: TreeEntry, details: ProcessDetails, width: int) -> Line:
    cpu = "" if isinstance(entry.cpu_percent, Absent) else f"{entry.cpu_percent:.0f}%"
    resident = "" if isinstance(entry.rss_bytes, Absent) else format_bytes_short(entry.rss_bytes)
    role = "accent" if entry.identity == details.identity else "plain"
    head = f"{entry.identity.pid:>8} {cpu:>5} {resident:>6}  {'  ' * min(entry.depth, DEPTH_AT_MOST)}"
    return join(((head, "dim"), (fit(program_of(entry.command), max(1, width - len(head))), role)))


def _environment(details: ProcessDetails, width: int, appearance: Appearance, shown: Shown) -> list[Line]:
    """The variables by name, once they are asked for; secrets are masked until they are asked for, too."""
    if not shown.environment:
        return []
    has_masked = not shown.secrets and MASK in str(_variables(details, shown))
    lines = [_heading(f"{ENVIRONMENT} (v shows masked values)" if has_masked else ENVIRONMENT, width, appearance)]
    if isinstance(details.environment, Absent):
        return [*lines, *wrap(details.environment.reason, width, "dim")]
    for name, text in _variables(details, shown):
        lines.append(join(((f"{name}=", "dim"), (fit(text, max(1, width - len(name) - 1)), "plain"))))
    return lines


def _variables(details: ProcessDetails, shown: Shown) -> list[tuple[str, str]]:
    variables = () if isinstance(details.environment, Absent) else details.environment
    return [(name, value if shown.secrets else mask_value(name, value)) for name, value in sorted(variables)]

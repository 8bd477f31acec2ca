"""The rows of the process table in order: filter, sort and tree as functions of a snapshot and a view."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from gputui.model.machine.device import Device, DeviceUse
from gputui.model.machine.process import Identity, Process, Workers
from gputui.model.machine.programs import program_of
from gputui.model.machine.secrets import mask_command
from gputui.model.machine.snapshot import Snapshot
from gputui.model.reading import NOT_READ, Absent, Reading, value_of
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.columns import Order, in_order, number
from gputui.ui.drawing.meters import Glyphs
from gputui.ui.drawing.monitor.devices import memory_of


class Group(NamedTuple):
    """What the tree puts under one heading: a job, pod, container or unit by its name, a launcher or server by PID."""

    kind: str
    name: str


LAUNCHER = "launcher"
"""The kind of group of ranks that are in no job or pod: those that one launcher has started."""
SERVER = "server"
"""The kind of group of the processes of an inference server."""


class ProcessRow(NamedTuple):
    """One row: a process on a device, memory that no process accounts for, a job's heading, or a process's workers.

    `key` identifies the row in the next snapshot. Rows without a process have their text in `note`. `command` is as
    it is shown, from its first visible cell on.
    """

    key: tuple[object, ...]
    process: Process | None = None
    use: DeviceUse | None = None
    device: str = ""
    device_total_bytes: int | None = None
    used_bytes: Reading[int] = NOT_READ
    cpu_percent: Reading[float] = NOT_READ
    rss_bytes: Reading[int] = NOT_READ
    command: Reading[str] = NOT_READ
    note: str = ""
    prefix: str = ""
    time: float = 0.0
    appearance: Appearance = Appearance()
    group: Group | None = None
    """Of a heading, the group that stands under it."""
    pids: tuple[int, ...] = ()
    """The processes that the row stands for."""

    @property
    def identity(self) -> Identity | None:
        """The process's identity, None for rows without one."""
        return self.process.identity if self.process else None


Predicate = Callable[[ProcessRow], bool]


def _process_text(read: Callable[[Process], Reading[str]]) -> Callable[[ProcessRow], tuple[object, ...]]:
    return lambda row: ((value_of(read(row.process)) or "~") if row.process else "~",)


def _program(process: Process) -> Reading[str]:
    return process.command if isinstance(process.command, Absent) else program_of(process.command).casefold()


def _started(row: ProcessRow) -> tuple[object, ...]:
    started = row.process.identity.started if row.process else None
    return (started is not None, row.time - (started or 0.0))


def _pid(row: ProcessRow) -> int:
    return row.process.pid if row.process else 0


PROCESS_ORDERS: tuple[Order, ...] = (
    Order("device", "n", "device and PID (natural)", lambda row: (row.key[0], _pid(row))),
    Order("memory", "g", "GPU memory", lambda row: number(row.used_bytes), is_descending=True),
    Order("sm", "s", "SM use", lambda row: number(row.use.sm_percent if row.use else NOT_READ), True),
    Order("pid", "p", "PID", lambda row: (_pid(row),)),
    Order("user", "u", "user", _process_text(lambda process: process.user)),
    Order("cpu", "c", "CPU", lambda row: number(row.cpu_percent), is_descending=True),
    Order("rss", "m", "host memory", lambda row: number(row.rss_bytes), is_descending=True),
    Order("time", "t", "running time", _started, is_descending=True),
    Order("command", "o", "command", _process_text(_program)),
)
"""All orders; the name of an order is the name of the column that it sorts by."""

PROCESS_ORDER_BY_NAME = {order.name: order for order in PROCESS_ORDERS}


class View(NamedTuple):
    """How the user wants to see the list: order, filter, tree and commands."""

    order: str = "device"
    is_reversed: bool = False
    predicate: Predicate | None = None
    filter_text: str = ""
    is_tree: bool = False
    has_whole_commands: bool = False
    """Commands with the interpreter and all folders, instead of the program they run."""
    folded_groups: frozenset[Group] = frozenset()
    """Groups whose processes the tree hides."""
    command_offset: int = 0
    """How many cells the commands are scrolled to the right."""


def process_rows_of(snapshot: Snapshot, view: View, appearance: Appearance) -> tuple[ProcessRow, ...]:
    """The rows of the table, in order."""
    places = {device.key: (position, device) for position, device in enumerate(snapshot.devices.devices)}
    rows = [
        _process_row(process, use, *places[use.device], snapshot.time, appearance)._replace(
            command=_shown_command(process, view)
        )
        for process in snapshot.processes.processes
        for use in process.uses
        if use.device in places
    ]
    rows += [
        ProcessRow(
            (places[rest.device][0], "rest"),
            device=places[rest.device][1].label,
            device_total_bytes=_total(places[rest.device][1]),
            used_bytes=rest.used_bytes,
            note=f"unattributed: {rest.cause}",
            appearance=appearance,
        )
        for rest in snapshot.processes.unattributed
        if rest.device in places
    ]
    if view.predicate:
        rows = [row for row in rows if view.predicate(row)]
    order = PROCESS_ORDER_BY_NAME.get(view.order, PROCESS_ORDERS[0])
    rows.sort(key=lambda row: (row.key[0], _pid(row)))
    rows = in_order(rows, order, is_reversed=view.is_reversed)
    rows.sort(key=lambda row: row.process is None)
    return tuple(_as_tree(rows, view.folded_groups, appearance)) if view.is_tree else tuple(rows)


def _shown_command(process: Process, view: View) -> Reading[str]:
    if isinstance(process.command, Absent):
        return process.command
    text = mask_command(process.command) if view.has_whole_commands else program_of(process.command)
    return text[view.command_offset :] if view.command_offset < len(text) else ""


def _process_row(
    process: Process, use: DeviceUse, position: int, device: Device, time: float, appearance: Appearance
) -> ProcessRow:
    return ProcessRow(
        (position, process.identity),
        process,
        use,
        device.label,
        _total(device),
        use.used_bytes,
        process.cpu_percent,
        process.rss_bytes,
        time=time,
        appearance=appearance,
        pids=(process.pid,) if process.pid else (),
    )


def _total(device: Device) -> int | None:
    memory = memory_of(device)
    return memory.total_bytes if memory else None


def _as_tree(rows: Iterable[ProcessRow], folded: frozenset[Group], appearance: Appearance) -> Iterable[ProcessRow]:
    """Processes under their group, workers under their process; groups in the order of their first row."""
    rows = list(rows)
    groups = [_group_of(row) or -1 - position for position, row in enumerate(rows)]
    first: dict[Group | int, int] = {}
    for position, group in enumerate(groups):
        first.setdefault(group, position)
    ordered = sorted(zip(groups, rows, strict=True), key=lambda item: first[item[0]])
    for group, together in groupby(ordered, key=itemgetter(0)):
        members = [row for _, row in together]
        if isinstance(group, int):
            yield from _branches(members, appearance.glyphs, is_nested=False)
            continue
        yield _heading(group, members, appearance, is_folded=group in folded)
        if group not in folded:
            yield from _branches(members, appearance.glyphs, is_nested=True)


def _group_of(row: ProcessRow) -> Group | None:
    """A row's group in the tree: job or pod, else server or launcher, which tell more than a container or unit."""
    process = row.process
    if process is None:
        return None
    owner = value_of(process.owner)
    group = Group(*owner.group) if owner and owner.group else None
    if owner and (owner.job or owner.pod):
        return group
    if process.server_pid is not None:
        return Group(SERVER, str(process.server_pid))
    launcher = process.rank.launcher_pid if process.rank else None
    return group if launcher is None else Group(LAUNCHER, str(launcher))


def _heading(group: Group, members: list[ProcessRow], appearance: Appearance, *, is_folded: bool) -> ProcessRow:
    known = [row.used_bytes for row in members if not isinstance(row.used_bytes, Absent)]
    processes = {row.process.pid: row.process for row in members if row.process}
    title = f"job of launcher {group.name}" if group.kind == LAUNCHER else f"{group.kind} {group.name}"
    note = f"[{'+' if is_folded else '-'}] {title}: {_count_of(processes.values())}"
    total: Reading[int] = sum(known) if known else Absent("no process's memory is known")
    return ProcessRow(
        ("group", group),
        used_bytes=total,
        note=note,
        appearance=appearance,
        group=group,
        pids=tuple(sorted(processes)),
    )


def _count_of(processes: Collection[Process]) -> str:
    """How many of the job's ranks are here, and how many processes without a rank."""
    worlds = [process.rank.world_size for process in processes if process.rank]
    others = len(processes) - len(worlds)
    if not worlds:
        return f"{others} process{'es' if others > 1 else ''}"
    return f"{len(worlds)} of {worlds[0]} ranks here" + (f", {others} more" if others else "")


def _branches(members: list[ProcessRow], glyphs: Glyphs, *, is_nested: bool) -> Iterable[ProcessRow]:
    for place, row in enumerate(members):
        is_last = place == len(members) - 1
        prefix = (glyphs.last_branch if is_last else glyphs.branch) if is_nested else ""
        yield row._replace(prefix=prefix)
        workers = row.process.workers if row.process else None
        if workers and workers.count:
            trunk = (" " * len(glyphs.trunk) if is_last else glyphs.trunk) if is_nested else ""
            yield _workers_row(row, workers, trunk + glyphs.last_branch)


def _workers_row(row: ProcessRow, workers: Workers, prefix: str) -> ProcessRow:
    note = f"{workers.count} worker{'s' if workers.count > 1 else ''}"
    note += "" if workers.is_proportional else " (shared pages counted more than once)"
    return ProcessRow(
        (*row.key, "workers"),
        cpu_percent=workers.cpu_percent,
        rss_bytes=workers.resident_bytes,
        note=note,
        prefix=prefix,
        appearance=row.appearance,
        used_bytes=Absent("workers hold no device memory"),
    )

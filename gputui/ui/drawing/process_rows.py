"""The rows of the process table in order: filter, sort and tree as functions of a snapshot and a view."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import NamedTuple

from gputui.model.device import Device, DeviceUse
from gputui.model.process import Identity, Process, Workers
from gputui.model.programs import program_of
from gputui.model.reading import NOT_READ, Absent, Reading, value_of
from gputui.model.secrets import mask_command
from gputui.model.snapshot import Snapshot
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.devices import label, memory_of
from gputui.ui.drawing.meters import Glyphs


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
    launcher: int | None = None
    """Of a job's heading, the PID of its launcher."""
    pids: tuple[int, ...] = ()
    """The processes that the row stands for."""

    @property
    def identity(self) -> Identity | None:
        """The process's identity, None for rows without one."""
        return self.process.identity if self.process else None


Predicate = Callable[[ProcessRow], bool]


class ProcessOrder(NamedTuple):
    """One way to sort: the letter after `o`, the words in the menu, and the value of a row."""

    name: str
    letter: str
    title: str
    value: Callable[[ProcessRow], tuple[object, ...]]
    is_descending: bool = False


def _number(reading: Reading[float]) -> tuple[object, ...]:
    value = value_of(reading)
    return (value is not None, value or 0)


def _process_text(read: Callable[[Process], Reading[str]]) -> Callable[[ProcessRow], tuple[object, ...]]:
    return lambda row: ((value_of(read(row.process)) or "~") if row.process else "~",)


def _program(process: Process) -> Reading[str]:
    return process.command if isinstance(process.command, Absent) else program_of(process.command).casefold()


def _started(row: ProcessRow) -> tuple[object, ...]:
    started = row.process.identity.started if row.process else None
    return (started is not None, row.time - (started or 0.0))


def _pid(row: ProcessRow) -> int:
    return row.process.pid if row.process else 0


PROCESS_ORDERS: tuple[ProcessOrder, ...] = (
    ProcessOrder("device", "n", "device and PID (natural)", lambda row: (row.key[0], _pid(row))),
    ProcessOrder("memory", "g", "GPU memory", lambda row: _number(row.used_bytes), is_descending=True),
    ProcessOrder("sm", "s", "SM use", lambda row: _number(row.use.sm_percent if row.use else NOT_READ), True),
    ProcessOrder("pid", "p", "PID", lambda row: (_pid(row),)),
    ProcessOrder("user", "u", "user", _process_text(lambda process: process.user)),
    ProcessOrder("cpu", "c", "CPU", lambda row: _number(row.cpu_percent), is_descending=True),
    ProcessOrder("rss", "m", "host memory", lambda row: _number(row.rss_bytes), is_descending=True),
    ProcessOrder("time", "t", "running time", _started, is_descending=True),
    ProcessOrder("command", "o", "command", _process_text(_program)),
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
    folded_jobs: frozenset[int] = frozenset()
    """PIDs of the launchers whose ranks the tree hides."""
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
            device=label(places[rest.device][1]),
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
    rows.sort(key=order.value, reverse=order.is_descending != view.is_reversed)
    rows.sort(key=lambda row: row.process is None)
    return tuple(_as_tree(rows, view.folded_jobs, appearance)) if view.is_tree else tuple(rows)


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
        label(device),
        _total(device),
        use.used_bytes,
        process.cpu_percent,
        process.rss_bytes,
        time=time,
        appearance=appearance,
        pids=(process.pid,),
    )


def _total(device: Device) -> int | None:
    memory = memory_of(device)
    return memory.total_bytes if memory else None


def _as_tree(rows: Iterable[ProcessRow], folded: frozenset[int], appearance: Appearance) -> Iterable[ProcessRow]:
    """Ranks under their launcher, workers under their process; jobs in the order of their first row."""
    rows = list(rows)
    first: dict[int, int] = {}
    for position, row in enumerate(rows):
        first.setdefault(_job_of(row, position), position)
    ordered = sorted(enumerate(rows), key=lambda item: first[_job_of(item[1], item[0])])
    for _, group in groupby(ordered, key=lambda item: _job_of(item[1], item[0])):
        members = [row for _, row in group]
        launcher = _launcher(members[0])
        if launcher is not None:
            yield _heading(launcher, members, appearance, is_folded=launcher in folded)
        if launcher not in folded:
            yield from _branches(members, appearance.glyphs, is_nested=launcher is not None)


def _launcher(row: ProcessRow) -> int | None:
    return row.process.rank.launcher_pid if row.process and row.process.rank else None


def _job_of(row: ProcessRow, position: int) -> int:
    launcher = _launcher(row)
    return launcher if launcher is not None else -1 - position


def _heading(launcher: int, members: list[ProcessRow], appearance: Appearance, *, is_folded: bool) -> ProcessRow:
    known = [row.used_bytes for row in members if not isinstance(row.used_bytes, Absent)]
    pids = {row.process.pid for row in members if row.process}
    world = next((row.process.rank.world_size for row in members if row.process and row.process.rank), len(pids))
    note = f"[{'+' if is_folded else '-'}] job of launcher {launcher}: {len(pids)} of {world} ranks here"
    total: Reading[int] = sum(known) if known else Absent("no rank's memory is known")
    return ProcessRow(
        ("job", launcher),
        used_bytes=total,
        note=note,
        appearance=appearance,
        launcher=launcher,
        pids=tuple(sorted(pids)),
    )


def _branches(members: list[ProcessRow], glyphs: Glyphs, *, is_nested: bool) -> Iterable[ProcessRow]:
    for number, row in enumerate(members):
        is_last = number == len(members) - 1
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

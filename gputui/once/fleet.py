"""A fleet as text for people: nodes, GPUs, the processes on them and jobs, then findings and what nobody tells."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterable, Sequence
from typing import Any

from gputui.explain.fleet.missing import found_words, missing
from gputui.model.fleet.fleet import Fleet
from gputui.model.fleet.parts import Holding, Readings
from gputui.model.machine.finding import MachineFinding
from gputui.model.reading import Reading, value_of
from gputui.once.table import Column, findings_lines, table
from gputui.output import BOLD, NORMAL, cut
from gputui.ui.drawing.line import as_text
from gputui.units import format_bytes_short

_NARROWEST = 40


def _number(reading: Reading[float], unit: str = "") -> str:
    value = value_of(reading)
    return "-" if value is None else f"{value:.0f}{unit}"


def _size(reading: Reading[float]) -> str:
    value = value_of(reading)
    return "-" if value is None else format_bytes_short(value)


def _memory(readings: Readings) -> str:
    return f"{_size(readings.used_bytes)} / {_size(readings.total_bytes)}"


def _job(holding: Holding) -> str:
    return holding.job.name if holding.job else "-"


def _rank(holding: Holding) -> str:
    if holding.rank is None:
        return "-"
    return f"{holding.rank}/{holding.world_size}" if holding.world_size else str(holding.rank)


_READINGS = (
    Column("UTIL", lambda row: _number(row.readings.busy_percent, "%")),
    Column("TENSOR", lambda row: _number(row.readings.tensor_percent, "%")),
    Column("MEMORY", lambda row: _memory(row.readings)),
    Column("TEMP", lambda row: _number(row.readings.temperature_c, "C")),
    Column("POWER", lambda row: _number(row.readings.power_w, "W")),
)
_NODE = (
    Column("CLUSTER", lambda row: row.place.cluster or "-", is_text=True),
    Column("NODE", lambda row: row.place.node, is_text=True),
)
_TABLES: tuple[tuple[Column, ...], ...] = (
    (*_NODE, Column("GPUS", lambda node: f"{node.gpus}"),
     Column("GONE", lambda node: f"{node.gone}" if node.gone else "-"), *_READINGS),
    (*_NODE, Column("GPU", lambda gpu: gpu.number or "-"), Column("NAME", lambda gpu: gpu.name or gpu.uuid, True),
     *_READINGS, Column("NOTES", lambda gpu: "lost" if gpu.is_lost else "", True)),
    (*_NODE, Column("GPU", lambda held: held.number or "-"), Column("PID", lambda held: f"{held.pid}"),
     Column("USER", lambda held: held.user or "-", True), Column("JOB", _job, True), Column("RANK", _rank),
     Column("MEMORY", lambda held: _size(held.used_bytes)), Column("SM", lambda held: _number(held.busy_percent, "%")),
     Column("RESERVED", lambda held: _size(held.torch_reserved_bytes)),
     Column("ALLOCATED", lambda held: _size(held.torch_allocated_bytes)),
     Column("PROGRAM", lambda held: held.program or "-", True)),
    (Column("CLUSTER", lambda job: job.name.cluster or "-", True), Column("KIND", lambda job: job.name.kind, True),
     Column("JOB", lambda job: job.name.name, True), Column("USER", lambda job: job.user or "-", True),
     Column("NODES", lambda job: f"{job.nodes}"), Column("GPUS", lambda job: f"{job.gpus}"),
     Column("PROCESSES", lambda job: f"{job.processes}"), Column("MEMORY", lambda job: _size(job.used_bytes)),
     Column("UTIL", lambda job: _number(job.busy_percent, "%"))),
)  # fmt: skip
"""The columns of nodes, GPUs, processes and jobs."""


def plain(fleet: Fleet, findings: Iterable[MachineFinding], width: int, *, in_color: bool) -> str:
    """All of a fleet in lines of at most `width` columns; sentences are wrapped, everything else is cut."""
    width = max(width, _NARROWEST)
    bold, end = (BOLD, NORMAL) if in_color else ("", "")
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(fleet.time))
    counts = f"{len(fleet.nodes)} nodes  {fleet.gpus} GPUs"
    lines = [f"{bold}{cut(f'{fleet.server}  {when}  {counts}', width)}{end}"]
    if words := found_words(fleet):
        lines += textwrap.wrap(f"told by {words}", width)
    for columns, rows in zip(_TABLES, _rows(fleet), strict=True):
        if rows:
            head, *body = table(_worth(columns, rows), rows, width)
            lines += ["", f"{bold}{head}{end}", *body]
    lines += [as_text(line, is_colored=in_color) for line in findings_lines(findings, width)]
    lacks = [line for sentence in missing(fleet) for line in textwrap.wrap(sentence, width, subsequent_indent="  ")]
    return "\n".join([*lines, *([""] if lacks else []), *lacks]) + "\n"


def _rows(fleet: Fleet) -> tuple[Sequence[Any], ...]:
    places = [node.place for node in fleet.nodes]
    devices = [device for place in places for device in fleet.devices.get(place, ())]
    holdings = [holding for place in places for holding in fleet.holdings.get(place, ())]
    return fleet.nodes, devices, holdings, fleet.jobs or ()


def _worth(columns: Iterable[Column], rows: Sequence[Any]) -> list[Column]:
    """Without the columns that have nothing to say about any row."""
    return [column for column in columns if any(column.text(row) not in ("-", "", "- / -") for row in rows)]

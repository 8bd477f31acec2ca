"""A row of the table: a cluster, a node, a GPU, a process or a job, each with readings as a GPU has them."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from gputui.model.fleet.parts import Holding, Job, JobName, Node, Place, Readings
from gputui.model.machine.device import Device, DeviceMemory
from gputui.model.reading import Absent, Reading, value_of
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.columns import Order, number
from gputui.ui.drawing.monitor.devices import DeviceRow

ASKING = ("being asked for ...", "dim")


class RowKind(str, Enum):
    """What a row stands for."""

    CLUSTER = "cluster"
    NODE = "node"
    DEVICE = "GPU"
    HOLDING = "process"
    JOB = "job"
    NOTE = "note"


class FleetRow(NamedTuple):
    """`key` identifies the row in the next answer. `note` is a remark that is no figure, with its role.

    `is_open` is None where no rows lie below this one.
    """

    key: tuple[object, ...]
    kind: RowKind
    name: str
    depth: int = 0
    place: Place | None = None
    gpus: int | None = None
    readings: Readings = Readings()
    user: str = ""
    job: JobName | None = None
    holding: Holding | None = None
    model: str = ""
    number: str = ""
    note: tuple[str, str] = ("", "dim")
    is_open: bool | None = None
    history: tuple[float | None, ...] = ()
    appearance: Appearance = Appearance()

    @property
    def drawn(self) -> DeviceRow:
        """The row's readings as a GPU, which the overview's columns can draw."""
        return DeviceRow(_as_device(self.readings), self.history, self.appearance)


class FleetView(NamedTuple):
    """How the user wants the table; `toggled` are the rows whose fold is not as it was at the beginning."""

    order: str = "name"
    is_reversed: bool = False
    predicate: Callable[[FleetRow], bool] | None = None
    filter_text: str = ""
    is_by_job: bool = False
    toggled: frozenset[tuple[object, ...]] = frozenset()


FLEET_ORDERS: tuple[Order, ...] = (
    Order("name", "n", "name (natural)", lambda _: ()),
    Order("gpus", "c", "number of GPUs", lambda row: (row.gpus or 0,), is_descending=True),
    Order("gpu_utilization_percent", "u", "utilisation", lambda row: number(row.readings.busy_percent), True),
    Order("tensor", "t", "tensor cores", lambda row: number(row.readings.tensor_percent), is_descending=True),
    Order("memory", "g", "memory in use", lambda row: number(row.readings.used_bytes), is_descending=True),
    Order("memory_percent", "m", "share of memory in use", lambda row: number(share(row.readings)), True),
    Order("temperature_c", "h", "temperature", lambda row: number(row.readings.temperature_c), is_descending=True),
    Order("power", "p", "power", lambda row: number(row.readings.power_w), is_descending=True),
)
"""All orders; rows come in natural order, which the first keeps."""

FLEET_ORDER_BY_NAME = {order.name: order for order in FLEET_ORDERS}


def share(readings: Readings) -> Reading[float]:
    """The used part of the memory, in percent."""
    used, total = value_of(readings.used_bytes), value_of(readings.total_bytes)
    return Absent("the memory is not known") if used is None or not total else 100 * used / total


def of_node(
    node: Node, history: tuple[float | None, ...], appearance: Appearance, depth: int, *, is_open: bool
) -> FleetRow:
    """A node's row; no rows lie below a node without GPUs."""
    return FleetRow(
        (RowKind.NODE, node.place),
        RowKind.NODE,
        node.place.node,
        depth,
        place=node.place,
        gpus=node.gpus,
        readings=node.readings,
        note=_of_node(node),
        is_open=is_open if node.gpus else None,
        history=history,
        appearance=appearance,
    )


def _of_node(node: Node) -> tuple[str, str]:
    if node.problem:
        since = time.strftime("%H:%M:%S", time.localtime(node.problem.since))
        return (f"since {since}: {node.problem.cause}", "alarm")
    if node.is_awaited:
        return ASKING
    if node.gone:
        gone = f"{node.gone} gone" if node.gpus else f"gone, with {node.gone} GPUs: nobody tells of it any more"
        return (gone, "poor" if node.gpus else "alarm")
    return ("", "dim")


def of_job(job: Job, appearance: Appearance) -> FleetRow:
    """A job's row."""
    nodes = f"{job.nodes} node{'s' * (job.nodes != 1)}, {job.processes} process{'es' * (job.processes != 1)}"
    return FleetRow(
        (RowKind.JOB, job.name),
        RowKind.JOB,
        f"{job.name.kind} {job.name.name}",
        gpus=job.gpus,
        readings=Readings(busy_percent=job.busy_percent, used_bytes=job.used_bytes),
        user=job.user,
        job=job.name,
        note=(nodes, "dim"),
        appearance=appearance,
    )


def _as_device(readings: Readings) -> Device:
    used, total = value_of(readings.used_bytes), value_of(readings.total_bytes)
    memory: Reading[DeviceMemory] = Absent("not told")
    if used is not None:
        free = max(0, round(total - used)) if total else 0
        memory = DeviceMemory(round(total or 0), round(used), free, None)
    return Device(
        0,
        "",
        "",
        "",
        memory=memory,
        gpu_utilization_percent=_whole(readings.busy_percent),
        tensor_percent=readings.tensor_percent,
        temperature_c=_whole(readings.temperature_c),
        power_w=readings.power_w,
        power_limit_w=readings.power_limit_w,
    )


def _whole(reading: Reading[float]) -> Reading[int]:
    return reading if isinstance(reading, Absent) else round(reading)

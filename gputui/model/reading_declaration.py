"""What the declaration of a device's reading consists of; the readings themselves are in `device_readings`."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from gputui.model.device import Device
from gputui.model.reading import Absent, Reading


class Cadence(Enum):
    """How often a reading is taken."""

    EACH_LOOK = "at each look"
    OFTEN = "every 2 seconds"
    SELDOM = "every 5 seconds"
    RARELY = "every 30 seconds"
    ONCE = "once"
    WATCHED = "only while somebody looks at the device"


class Unit(NamedTuple):
    """How a value is written: `text` in full, `short` in a column whose title may name the unit."""

    text: Callable[[Any], str]
    short: Callable[[Any], str] = str


class ReadingRow(NamedTuple):
    """A line of the device screen; `text` writes the value, by default in the reading's unit."""

    group: str
    label: str
    text: Callable[[Any], Reading[str]] | None = None


class ReadingGraph(NamedTuple):
    """A graph of the device screen, and the series of it that the history keeps.

    `part` is the attribute of the value that is drawn, "" for the value itself. `top` is the upper end of the graph;
    where that is absent it is `top_otherwise`, and where that is None the highest point. `write` writes a point, by
    default in the short form of the reading's unit.
    """

    title: str
    top: Callable[[Device], Reading[float]]
    top_otherwise: float | None = None
    part: str = ""
    role: str = "good"
    write: Callable[[Any], str] | None = None


class OverviewColumn(NamedTuple):
    """A column of the overview's device list, shown if the terminal is at least `from_width` cells wide; lower widths
    stand further left."""

    title: str
    width: int
    from_width: int
    role: str = "dim"


class DeviceReading(NamedTuple):
    """One reading: `field` is its name in `Device`; it appears only in those places below that are set.

    `once_title` is the title of its column in `gputui --once`. `document` is its name in the once document, with a dot
    a name in an object; with `document_parts` it is an object of these attributes of the value, all null where it is
    absent. `of_instances` marks what NVML answers for a MIG instance too; the rest is measured for the whole GPU alone.
    """

    field: str
    cadence: Cadence
    unit: Unit
    rows: tuple[ReadingRow, ...] = ()
    graph: ReadingGraph | None = None
    column: OverviewColumn | None = None
    once_title: str = ""
    document: str = ""
    document_parts: tuple[str, ...] = ()
    of_instances: bool = False

    @property
    def series(self) -> str:
        """The name of its series in the history."""
        return (self.graph and self.graph.part) or self.field

    def point(self, device: Device) -> float | None:
        """The present point of its graph, None where there is none."""
        value = getattr(device, self.field)
        if self.graph is None or isinstance(value, Absent):
            return None
        point: float = getattr(value, self.graph.part) if self.graph.part else value
        return point

    def text(self, device: Device, row: ReadingRow | None = None) -> Reading[str]:
        """The value in full, or as one of `rows` writes it."""
        value = getattr(device, self.field)
        write = (row and row.text) or self.unit.text
        return value if isinstance(value, Absent) else write(value)

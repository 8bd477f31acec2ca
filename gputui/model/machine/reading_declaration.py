"""The classes, units and ranges with which `device_readings` declares the readings of a device."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from gputui.model.machine.device import (
    Bar1,
    Device,
    DeviceMemory,
    MigMode,
    NvLinks,
    PcieLink,
    RemappedRows,
    Throttled,
)
from gputui.model.reading import Absent, Reading
from gputui.units import PIB, format_bytes, format_bytes_short, format_rate


class Cadence(Enum):
    """How often a reading is taken."""

    EACH_LOOK = "at each look"
    OFTEN = "every 2 seconds"
    SELDOM = "every 5 seconds"
    RARELY = "every 30 seconds"
    ONCE = "once"
    WATCHED = "only while somebody looks at the device"
    MEAN = "every 2 seconds in a thread of its own, as the mean since the last time"


class Unit(NamedTuple):
    """How a value is written: `text` in full, `short` in a column whose title may name the unit."""

    text: Callable[[Any], str]
    short: Callable[[Any], str] = str


Range = Callable[[Any], bool]
"""Tells whether a value is possible: drivers report success and answer nonsense, such as 4294967295 W."""


def anything(value: object) -> bool:  # noqa: ARG001
    """The range of texts, and of numbers that a table turns into words."""
    return True


def between(lowest: float, highest: float) -> Range:
    """The range of a number."""
    return lambda number: bool(lowest <= number <= highest)


def parts(**ranges: Range) -> Range:
    """The range of a reading with several numbers by their names; None, for what is not reported, is in every range."""

    def can_be(value: object) -> bool:
        numbers = ((getattr(value, name), is_possible) for name, is_possible in ranges.items())
        return all(number is None or is_possible(number) for number, is_possible in numbers)

    return can_be


def answered(text: str) -> Absent:
    """The absent reading for an impossible answer, which `text` shows."""
    return Absent(f"the driver answered {text}")


class ReadingRow(NamedTuple):
    """A line of the device screen; `text` formats the value, None: as the reading's unit does."""

    label: str
    text: Callable[[Any], Reading[str]] | None = None


class ReadingGraph(NamedTuple):
    """A graph of the device screen, and the series of it that the history keeps.

    `part` is the attribute of the value that is drawn, "" for the value itself. `top` gives the upper end of the graph;
    where it is absent, `top_otherwise` counts, and where that is None the highest point. `write` formats a point, None:
    in the short form of the reading's unit.
    """

    title: str
    top: Callable[[Device], Reading[float]]
    top_otherwise: float | None = None
    part: str = ""
    role: str = "good"
    write: Callable[[Any], str] | None = None


class OverviewColumn(NamedTuple):
    """A column of the overview's device list, shown if the terminal is at least `from_width` cells wide; columns with
    a lower `from_width` stand further left."""

    title: str
    width: int
    from_width: int
    role: str = "dim"


class DeviceReading(NamedTuple):
    """One reading: `field` is its name in `Device`; it is shown only in the places below that are set.

    A value outside `can_be` becomes absent. `group` and `label` are those of its line on the device screen; several
    lines are in `rows`. `document` is its name in the once document; a dot in it separates an object and a name there;
    with `document_parts` it is an object of these attributes of the value, all null where it is absent. `of_instances`:
    NVML answers it for MIG instances too; all others are measured for the whole GPU alone.
    """

    field: str
    cadence: Cadence
    unit: Unit
    can_be: Range
    group: str = ""
    label: str = ""
    rows: tuple[ReadingRow, ...] = ()
    graph: ReadingGraph | None = None
    column: OverviewColumn | None = None
    document: str = ""
    document_parts: tuple[str, ...] = ()
    of_instances: bool = False

    @property
    def lines(self) -> tuple[ReadingRow, ...]:
        """The reading's lines on the device screen."""
        return self.rows or ((ReadingRow(self.label),) if self.label else ())

    @property
    def series(self) -> str:
        """The name of the reading's series in the history."""
        return (self.graph and self.graph.part) or self.field

    def point(self, device: Device) -> float | None:
        """The newest point of the reading's graph, None without a graph or a value."""
        value = getattr(device, self.field)
        if self.graph is None or isinstance(value, Absent):
            return None
        point: float = getattr(value, self.graph.part) if self.graph.part else value
        return point

    def checked(self, value: Reading[Any]) -> Reading[Any]:
        """The value; absent, with the driver's answer, where it is outside `can_be`."""
        return value if isinstance(value, Absent) or self.can_be(value) else answered(self.unit.text(value))

    def text(self, device: Device, row: ReadingRow | None = None) -> Reading[str]:
        """The value in full, or as `row` formats it."""
        value = getattr(device, self.field)
        write = (row and row.text) or self.unit.text
        return value if isinstance(value, Absent) else write(value)


def _used_of_total(part: Any) -> str:  # noqa: ANN401 - DeviceMemory or Bar1
    return f"{format_bytes(part.used_bytes)} of {format_bytes(part.total_bytes)}"


def _enabled(is_enabled: bool) -> str:  # noqa: FBT001 - the value of a reading
    return "enabled" if is_enabled else "disabled"


def _mig_mode(mode: MigMode) -> str:
    now, later = _enabled(mode.is_enabled), _enabled(mode.is_enabled_after_reset)
    return now if now == later else f"{now} ({later} after the next reset)"


def _memory_text(memory: DeviceMemory) -> str:
    """Used of total; names a part that is larger than the whole, since that makes the answer impossible."""
    larger = [
        f", {format_bytes(count)} of it {name}"
        for name, count in (("free", memory.free_bytes), ("reserved", memory.driver_reserved_bytes or 0))
        if count > memory.total_bytes >= memory.used_bytes
    ]
    return _used_of_total(memory) + "".join(larger)


def can_be_memory(memory: DeviceMemory) -> bool:
    """Whether no part is larger than the whole."""
    counts = (memory.used_bytes, memory.free_bytes, memory.driver_reserved_bytes or 0)
    return 0 < memory.total_bytes <= PIB and max(counts) <= memory.total_bytes


def can_be_bar1(bar1: Bar1) -> bool:
    """Whether no more is used than there is."""
    return bar1.used_bytes <= bar1.total_bytes <= PIB


def _pcie_text(link: PcieLink) -> str:
    now, at_most = f"gen {link.generation} x{link.width}", f"gen {link.max_generation} x{link.max_width}"
    return now if now == at_most else f"{now}, at most {at_most}"


def rows_text(rows: RemappedRows) -> str:
    """Both counts."""
    return f"{rows.correctable} correctable, {rows.uncorrectable} not"


def _throttled_text(throttled: Throttled) -> str:
    return f"{throttled.power_percent:.0f}% of the time for power, {throttled.thermal_percent:.0f}% for heat"


def _links_text(links: NvLinks) -> str:
    rates = [format_rate(rate) for rate in (links.tx_bytes_per_s, links.rx_bytes_per_s) if rate is not None]
    return " and ".join(rates) or f"{links.total} NVLinks"


TEXT = Unit(str)
NUMBER = Unit(str)
PERCENT = Unit("{}%".format, "{}%".format)
MEAN_PERCENT = Unit("{:.0f}%".format, "{:.0f}%".format)
CELSIUS = Unit("{} °C".format, "{}°C".format)
WATTS = Unit("{:.0f} W".format, "{:.0f}W".format)
MEGAHERTZ = Unit("{} MHz".format)
KILOWATT_HOURS = Unit(lambda joules: f"{joules / 3_600_000:,.1f} kWh")
BYTES_PER_S = Unit(format_rate, format_bytes_short)
USED_OF_TOTAL = Unit(_used_of_total)
REASONS = Unit(", ".join)
PARTS_OF_TIME = Unit(_throttled_text)
SWITCH = Unit(_enabled)
MIG_SWITCH = Unit(_mig_mode)
DISPLAY = Unit(lambda is_active: "active" if is_active else "not active")
MEMORY_SPLIT = Unit(_memory_text)
PCIE_LINK = Unit(_pcie_text)
ROWS = Unit(rows_text)
LINKS_AND_RATES = Unit(_links_text)

A_SHARE = between(0, 100)
SHARES_OF_TIME = parts(power_percent=A_SHARE, thermal_percent=A_SHARE)
A_FAN = between(0, 250)
"""NVML documents that a fan can turn faster than at its nominal 100 %."""
A_TEMPERATURE = between(0, 200)
A_THRESHOLD = between(1, 200)
A_POWER = between(0, 20_000)
A_LIMIT = between(1, 20_000)
AN_ENERGY = between(0, 1e13)
"""Joules: 20 kW for 15 years."""
A_CLOCK = between(0, 100_000)
A_HIGHEST_CLOCK = between(1, 100_000)
A_COUNT = between(0, 10**12)
A_RATE = between(0, 10**12)
"""Bytes a second on PCIe; the upper end is four times what 16 lanes of generation 7 carry."""
A_LINK = parts(generation=between(1, 10), width=between(1, 32), max_generation=between(1, 10), max_width=between(1, 32))
SOME_LINKS = parts(total=between(1, 64), tx_bytes_per_s=between(0, 10**14), rx_bytes_per_s=between(0, 10**14))
SOME_ROWS = parts(correctable=between(0, 10**6), uncorrectable=between(0, 10**6))

"""Every reading of a device, declared once: its unit, how often it is read, and where it is shown.

A new reading is three things: a field of `gputui.model.device.Device`, an entry of `READINGS` here, and the NVML call
in `gputui.sources.nvml.calls`. The device screen, its graphs and their history, the overview's column, the column of
`gputui --once` and the once document follow from the entry. Each of them lists readings in the order of `READINGS`.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from gputui.model.device import Device, MigMode
from gputui.model.reading import Absent, Reading
from gputui.model.reading_declaration import (
    Cadence,
    DeviceReading,
    OverviewColumn,
    ReadingGraph,
    ReadingRow,
    Unit,
)
from gputui.units import format_bytes, format_bytes_short, format_rate

_NOT_REPORTED = Absent("not reported by the driver")
_IN_USED = Absent("contained in used (old driver)")


def _known_text(text: str) -> Reading[str]:
    return text or _NOT_REPORTED


def _used_of_total(part: Any) -> str:  # noqa: ANN401 - DeviceMemory or Bar1
    return f"{format_bytes(part.used_bytes)} of {format_bytes(part.total_bytes)}"


def _bytes_of(part: str, otherwise: Absent = _NOT_REPORTED) -> Callable[[Any], Reading[str]]:
    def text(value: object) -> Reading[str]:
        count = getattr(value, part)
        return otherwise if count is None else format_bytes(count)

    return text


def _rate_of(part: str) -> Callable[[Any], str]:
    def text(value: object) -> str:
        rate = getattr(value, part)
        return "not reported" if rate is None else format_rate(rate)

    return text


def _total_bytes(device: Device) -> Reading[float]:
    return device.memory if isinstance(device.memory, Absent) else device.memory.total_bytes


def _highest_point(_: Device) -> Reading[float]:
    return Absent("no limit is known")


def _enabled(is_enabled: bool) -> str:  # noqa: FBT001 - the value of a reading
    return "enabled" if is_enabled else "disabled"


def _mig_mode(mode: MigMode) -> str:
    now, later = _enabled(mode.is_enabled), _enabled(mode.is_enabled_after_reset)
    return now if now == later else f"{now} ({later} after the next reset)"


TEXT = Unit(str)
NUMBER = Unit(str)
PERCENT = Unit("{}%".format, "{}%".format)
CELSIUS = Unit("{} °C".format, "{}°C".format)
WATTS = Unit("{:.0f} W".format, "{:.0f}W".format)
MEGAHERTZ = Unit("{} MHz".format)
KILOWATT_HOURS = Unit(lambda joules: f"{joules / 3_600_000:,.1f} kWh")
BYTES_PER_S = Unit(format_rate, format_bytes_short)
USED_OF_TOTAL = Unit(_used_of_total)

MEMORY, WORK, POWER, CLOCKS, LINKS = "Memory", "Work", "Power and heat", "Clocks", "Links"
HEALTH, IDENTITY = "Health", "Identity"
GROUPS = (MEMORY, WORK, POWER, CLOCKS, LINKS, HEALTH, IDENTITY)
"""The groups of the device screen's rows."""

READINGS: tuple[DeviceReading, ...] = (
    DeviceReading("name", Cadence.ONCE, TEXT, of_instances=True),
    DeviceReading(
        "gpu_utilization_percent",
        Cadence.EACH_LOOK,
        PERCENT,
        rows=(ReadingRow(WORK, "GPU utilisation"),),
        graph=ReadingGraph("GPU", top=lambda _: 100),
        document="gpu_utilization_percent",
    ),
    DeviceReading(
        "memory",
        Cadence.EACH_LOOK,
        USED_OF_TOTAL,
        rows=(
            ReadingRow(MEMORY, "total", _bytes_of("total_bytes")),
            ReadingRow(MEMORY, "used", _bytes_of("used_bytes")),
            ReadingRow(MEMORY, "free", _bytes_of("free_bytes")),
            ReadingRow(MEMORY, "driver reserved", _bytes_of("driver_reserved_bytes", otherwise=_IN_USED)),
        ),
        graph=ReadingGraph("Memory", top=_total_bytes, part="used_bytes", role="accent", write=format_bytes_short),
        document="memory",
        document_parts=("total_bytes", "used_bytes", "free_bytes", "driver_reserved_bytes"),
        of_instances=True,
    ),
    DeviceReading("bar1", Cadence.RARELY, USED_OF_TOTAL, rows=(ReadingRow(MEMORY, "BAR1"),)),
    DeviceReading(
        "sm_clock_mhz",
        Cadence.OFTEN,
        MEGAHERTZ,
        rows=(ReadingRow(CLOCKS, "SM"),),
        graph=ReadingGraph("SM clock", top=attrgetter("max_sm_clock_mhz")),
        column=OverviewColumn("SM MHz", 6, from_width=140),
        once_title="SM CLOCK",
        document="sm_clock_mhz",
    ),
    DeviceReading("max_sm_clock_mhz", Cadence.ONCE, MEGAHERTZ, rows=(ReadingRow(CLOCKS, "SM at most"),)),
    DeviceReading(
        "memory_clock_mhz",
        Cadence.SELDOM,
        MEGAHERTZ,
        rows=(ReadingRow(CLOCKS, "memory"),),
        document="memory_clock_mhz",
    ),
    DeviceReading("max_memory_clock_mhz", Cadence.ONCE, MEGAHERTZ, rows=(ReadingRow(CLOCKS, "memory at most"),)),
    DeviceReading(
        "power_w",
        Cadence.EACH_LOOK,
        WATTS,
        rows=(ReadingRow(POWER, "power"),),
        graph=ReadingGraph("Power", top=attrgetter("power_limit_w")),
        document="power_w",
    ),
    DeviceReading(
        "power_limit_w",
        Cadence.RARELY,
        WATTS,
        rows=(ReadingRow(POWER, "power limit"),),
        document="power_limit_w",
    ),
    DeviceReading("energy_j", Cadence.SELDOM, KILOWATT_HOURS, rows=(ReadingRow(POWER, "energy"),)),
    DeviceReading(
        "temperature_c",
        Cadence.EACH_LOOK,
        CELSIUS,
        rows=(ReadingRow(POWER, "temperature"),),
        graph=ReadingGraph("Temperature", top=attrgetter("slowdown_temperature_c"), top_otherwise=100),
        document="temperature_c",
    ),
    DeviceReading("memory_temperature_c", Cadence.SELDOM, CELSIUS, rows=(ReadingRow(POWER, "memory temperature"),)),
    DeviceReading("slowdown_temperature_c", Cadence.ONCE, CELSIUS, rows=(ReadingRow(POWER, "slows down at"),)),
    DeviceReading("shutdown_temperature_c", Cadence.ONCE, CELSIUS, rows=(ReadingRow(POWER, "shuts down at"),)),
    DeviceReading(
        "fan_percent",
        Cadence.SELDOM,
        PERCENT,
        rows=(ReadingRow(POWER, "fan"),),
        column=OverviewColumn("Fan", 4, from_width=90),
        once_title="FAN",
        document="fan_percent",
    ),
    DeviceReading("throttle_reasons", Cadence.OFTEN, Unit(", ".join), document="throttle_reasons"),
    DeviceReading(
        "memory_utilization_percent",
        Cadence.EACH_LOOK,
        PERCENT,
        rows=(ReadingRow(WORK, "memory read/write"),),
        column=OverviewColumn("Mem r/w", 7, from_width=140, role="plain"),
        document="memory_utilization_percent",
    ),
    DeviceReading("encoder_percent", Cadence.SELDOM, PERCENT, rows=(ReadingRow(WORK, "encoder"),)),
    DeviceReading("decoder_percent", Cadence.SELDOM, PERCENT, rows=(ReadingRow(WORK, "decoder"),)),
    DeviceReading(
        "pstate",
        Cadence.SELDOM,
        TEXT,
        rows=(ReadingRow(WORK, "performance state"),),
        column=OverviewColumn("P", 3, from_width=90),
        document="pstate",
    ),
    DeviceReading(
        "pcie",
        Cadence.SELDOM,
        TEXT,
        rows=(
            ReadingRow(LINKS, "PCIe", lambda link: f"gen {link.generation} x{link.width}"),
            ReadingRow(LINKS, "PCIe at most", lambda link: f"gen {link.max_generation} x{link.max_width}"),
        ),
        document="pcie",
        document_parts=("generation", "width"),
    ),
    DeviceReading(
        "pcie_rx_bytes_per_s",
        Cadence.WATCHED,
        BYTES_PER_S,
        rows=(ReadingRow(LINKS, "PCIe receives"),),
        graph=ReadingGraph("PCIe receives", top=_highest_point, role="accent"),
        column=OverviewColumn("PCIe rx", 7, from_width=170, role="plain"),
        document="pcie.rx_bytes_per_s",
    ),
    DeviceReading(
        "pcie_tx_bytes_per_s",
        Cadence.WATCHED,
        BYTES_PER_S,
        rows=(ReadingRow(LINKS, "PCIe sends"),),
        column=OverviewColumn("PCIe tx", 7, from_width=170, role="plain"),
        document="pcie.tx_bytes_per_s",
    ),
    DeviceReading(
        "nvlinks",
        Cadence.WATCHED,
        TEXT,
        rows=(
            ReadingRow(LINKS, "NVLink", lambda links: f"{links.active} of {links.total} active"),
            ReadingRow(LINKS, "NVLink receives", _rate_of("rx_bytes_per_s")),
            ReadingRow(LINKS, "NVLink sends", _rate_of("tx_bytes_per_s")),
        ),
    ),
    DeviceReading(
        "ecc_uncorrected",
        Cadence.RARELY,
        NUMBER,
        rows=(ReadingRow(HEALTH, "ECC uncorrected"),),
        document="ecc_uncorrected",
    ),
    DeviceReading("ecc_corrected", Cadence.RARELY, NUMBER, rows=(ReadingRow(HEALTH, "ECC corrected"),)),
    DeviceReading(
        "remapped_rows",
        Cadence.RARELY,
        TEXT,
        rows=(
            ReadingRow(
                HEALTH, "remapped rows", lambda rows: f"{rows.correctable} correctable, {rows.uncorrectable} not"
            ),
            ReadingRow(HEALTH, "remap pending", lambda rows: "yes: reset the GPU" if rows.pending else "no"),
            ReadingRow(HEALTH, "remap failed", lambda rows: "yes: replace the GPU" if rows.failed else "no"),
        ),
    ),
    DeviceReading("retired_pages", Cadence.RARELY, NUMBER, rows=(ReadingRow(HEALTH, "retired pages"),)),
    DeviceReading("uuid", Cadence.ONCE, TEXT, of_instances=True),
    DeviceReading("bus_id", Cadence.ONCE, TEXT, rows=(ReadingRow(IDENTITY, "bus", _known_text),)),
    DeviceReading("serial", Cadence.ONCE, TEXT, rows=(ReadingRow(IDENTITY, "serial"),)),
    DeviceReading("vbios", Cadence.ONCE, TEXT, rows=(ReadingRow(IDENTITY, "VBIOS"),)),
    DeviceReading("architecture", Cadence.ONCE, TEXT, rows=(ReadingRow(IDENTITY, "architecture"),)),
    DeviceReading("compute_capability", Cadence.ONCE, TEXT, rows=(ReadingRow(IDENTITY, "compute capability"),)),
    DeviceReading("compute_mode", Cadence.RARELY, TEXT, rows=(ReadingRow(IDENTITY, "compute mode"),)),
    DeviceReading("persistence_mode", Cadence.RARELY, Unit(_enabled), rows=(ReadingRow(IDENTITY, "persistence mode"),)),
    DeviceReading(
        "display_active",
        Cadence.RARELY,
        Unit(lambda is_active: "active" if is_active else "not active"),
        rows=(ReadingRow(IDENTITY, "display"),),
    ),
    DeviceReading("mig_mode", Cadence.SELDOM, Unit(_mig_mode), rows=(ReadingRow(IDENTITY, "MIG"),)),
)

GRAPHED = tuple(reading for reading in READINGS if reading.graph)
"""The readings whose history is kept."""

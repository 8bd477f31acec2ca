"""Every reading of a device, declared once: its unit, how often it is read, and where it is shown.

A new reading is three things: a field of `gputui.model.machine.device.Device`, an entry of `READINGS` here, and the
NVML call in `gputui.sources.nvml.calls`. The device screen, its graphs and their history, the overview's column, the
column of `gputui --once` and the once document follow from the entry, and list readings in the order of `READINGS`.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from gputui.model.machine.device import Device
from gputui.model.machine.profile_readings import PROFILE, PROFILE_READINGS
from gputui.model.machine.reading_declaration import (
    A_CLOCK,
    A_COUNT,
    A_FAN,
    A_HIGHEST_CLOCK,
    A_LIMIT,
    A_LINK,
    A_POWER,
    A_RATE,
    A_SHARE,
    A_TEMPERATURE,
    A_THRESHOLD,
    AN_ENERGY,
    BYTES_PER_S,
    CELSIUS,
    DISPLAY,
    KILOWATT_HOURS,
    LINKS_AND_RATES,
    MEGAHERTZ,
    MEMORY_SPLIT,
    MIG_SWITCH,
    NUMBER,
    PARTS_OF_TIME,
    PCIE_LINK,
    PERCENT,
    REASONS,
    ROWS,
    SHARES_OF_TIME,
    SOME_LINKS,
    SOME_ROWS,
    SWITCH,
    TEXT,
    USED_OF_TOTAL,
    WATTS,
    Cadence,
    DeviceReading,
    OverviewColumn,
    ReadingGraph,
    ReadingRow,
    anything,
    between,
    can_be_bar1,
    can_be_memory,
    rows_text,
)
from gputui.model.reading import Absent, Reading
from gputui.units import format_bytes, format_bytes_short, format_rate

_NOT_REPORTED = Absent("not reported by the driver")
_IN_USED = Absent("contained in used (old driver)")


def _known_text(text: str) -> Reading[str]:
    return text or _NOT_REPORTED


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


MEMORY, WORK, POWER, CLOCKS, LINKS = "Memory", "Work", "Power and heat", "Clocks", "Links"
HEALTH, IDENTITY = "Health", "Identity"
GROUPS = (MEMORY, WORK, PROFILE, POWER, CLOCKS, LINKS, HEALTH, IDENTITY)
"""The groups of the device screen's rows."""

READINGS: tuple[DeviceReading, ...] = (
    DeviceReading("name", Cadence.ONCE, TEXT, anything, of_instances=True),
    DeviceReading(
        "gpu_utilization_percent",
        Cadence.EACH_LOOK,
        PERCENT,
        A_SHARE,
        WORK,
        "GPU utilisation",
        graph=ReadingGraph("GPU", top=lambda _: 100),
        document="gpu_utilization_percent",
    ),
    DeviceReading(
        "memory",
        Cadence.EACH_LOOK,
        MEMORY_SPLIT,
        can_be_memory,
        MEMORY,
        rows=(
            ReadingRow("total", _bytes_of("total_bytes")),
            ReadingRow("used", _bytes_of("used_bytes")),
            ReadingRow("free", _bytes_of("free_bytes")),
            ReadingRow("driver reserved", _bytes_of("driver_reserved_bytes", otherwise=_IN_USED)),
        ),
        graph=ReadingGraph("Memory", top=_total_bytes, part="used_bytes", role="accent", write=format_bytes_short),
        document="memory",
        document_parts=("total_bytes", "used_bytes", "free_bytes", "driver_reserved_bytes"),
        of_instances=True,
    ),
    DeviceReading("bar1", Cadence.RARELY, USED_OF_TOTAL, can_be_bar1, MEMORY, "BAR1"),
    DeviceReading(
        "sm_clock_mhz",
        Cadence.OFTEN,
        MEGAHERTZ,
        A_CLOCK,
        CLOCKS,
        "SM",
        graph=ReadingGraph("SM clock", top=attrgetter("max_sm_clock_mhz")),
        column=OverviewColumn("SM MHz", 6, from_width=140),
        document="sm_clock_mhz",
    ),
    DeviceReading("max_sm_clock_mhz", Cadence.ONCE, MEGAHERTZ, A_HIGHEST_CLOCK, CLOCKS, "SM at most"),
    DeviceReading(
        "memory_clock_mhz", Cadence.SELDOM, MEGAHERTZ, A_CLOCK, CLOCKS, "memory", document="memory_clock_mhz"
    ),
    DeviceReading("max_memory_clock_mhz", Cadence.ONCE, MEGAHERTZ, A_HIGHEST_CLOCK, CLOCKS, "memory at most"),
    DeviceReading(
        "power_w",
        Cadence.EACH_LOOK,
        WATTS,
        A_POWER,
        POWER,
        "power",
        graph=ReadingGraph("Power", top=attrgetter("power_limit_w")),
        document="power_w",
    ),
    DeviceReading("power_limit_w", Cadence.RARELY, WATTS, A_LIMIT, POWER, "power limit", document="power_limit_w"),
    DeviceReading("energy_j", Cadence.SELDOM, KILOWATT_HOURS, AN_ENERGY, POWER, "energy"),
    DeviceReading(
        "temperature_c",
        Cadence.EACH_LOOK,
        CELSIUS,
        A_TEMPERATURE,
        POWER,
        "temperature",
        graph=ReadingGraph("Temperature", top=attrgetter("slowdown_temperature_c"), top_otherwise=100),
        document="temperature_c",
    ),
    DeviceReading("memory_temperature_c", Cadence.SELDOM, CELSIUS, A_TEMPERATURE, POWER, "memory temperature"),
    DeviceReading("slowdown_temperature_c", Cadence.ONCE, CELSIUS, A_THRESHOLD, POWER, "slows down at"),
    DeviceReading("shutdown_temperature_c", Cadence.ONCE, CELSIUS, A_THRESHOLD, POWER, "shuts down at"),
    DeviceReading(
        "fan_percent",
        Cadence.SELDOM,
        PERCENT,
        A_FAN,
        POWER,
        "fan",
        column=OverviewColumn("Fan", 4, from_width=90),
        document="fan_percent",
    ),
    DeviceReading("throttle_reasons", Cadence.OFTEN, REASONS, anything, document="throttle_reasons"),
    DeviceReading(
        "throttled",
        Cadence.SELDOM,
        PARTS_OF_TIME,
        SHARES_OF_TIME,
        POWER,
        rows=(
            ReadingRow("slowed for power", lambda throttled: f"{throttled.power_percent:.0f}% of the time"),
            ReadingRow("slowed for heat", lambda throttled: f"{throttled.thermal_percent:.0f}% of the time"),
        ),
        document="throttled",
        document_parts=("power_percent", "thermal_percent"),
    ),
    DeviceReading(
        "memory_utilization_percent",
        Cadence.EACH_LOOK,
        PERCENT,
        A_SHARE,
        WORK,
        "memory read/write",
        column=OverviewColumn("Mem r/w", 7, from_width=140, role="plain"),
        document="memory_utilization_percent",
    ),
    *PROFILE_READINGS,
    DeviceReading("encoder_percent", Cadence.SELDOM, PERCENT, A_SHARE, WORK, "encoder"),
    DeviceReading("decoder_percent", Cadence.SELDOM, PERCENT, A_SHARE, WORK, "decoder"),
    DeviceReading(
        "pstate",
        Cadence.SELDOM,
        TEXT,
        anything,
        WORK,
        "performance state",
        column=OverviewColumn("P", 3, from_width=90),
        document="pstate",
    ),
    DeviceReading(
        "pcie",
        Cadence.SELDOM,
        PCIE_LINK,
        A_LINK,
        LINKS,
        rows=(
            ReadingRow("PCIe", lambda link: f"gen {link.generation} x{link.width}"),
            ReadingRow("PCIe at most", lambda link: f"gen {link.max_generation} x{link.max_width}"),
        ),
        document="pcie",
        document_parts=("generation", "width"),
    ),
    DeviceReading(
        "pcie_rx_bytes_per_s",
        Cadence.WATCHED,
        BYTES_PER_S,
        A_RATE,
        LINKS,
        "PCIe receives",
        graph=ReadingGraph("PCIe receives", top=_highest_point, role="accent"),
        column=OverviewColumn("PCIe rx", 7, from_width=170, role="plain"),
        document="pcie.rx_bytes_per_s",
    ),
    DeviceReading(
        "pcie_tx_bytes_per_s",
        Cadence.WATCHED,
        BYTES_PER_S,
        A_RATE,
        LINKS,
        "PCIe sends",
        column=OverviewColumn("PCIe tx", 7, from_width=170, role="plain"),
        document="pcie.tx_bytes_per_s",
    ),
    DeviceReading(
        "nvlinks",
        Cadence.WATCHED,
        LINKS_AND_RATES,
        SOME_LINKS,
        LINKS,
        rows=(
            ReadingRow("NVLink", lambda links: f"{links.active} of {links.total} active"),
            ReadingRow("NVLink receives", _rate_of("rx_bytes_per_s")),
            ReadingRow("NVLink sends", _rate_of("tx_bytes_per_s")),
        ),
    ),
    DeviceReading(
        "ecc_uncorrected", Cadence.RARELY, NUMBER, A_COUNT, HEALTH, "ECC uncorrected", document="ecc_uncorrected"
    ),
    DeviceReading("ecc_corrected", Cadence.RARELY, NUMBER, A_COUNT, HEALTH, "ECC corrected"),
    DeviceReading(
        "remapped_rows",
        Cadence.RARELY,
        ROWS,
        SOME_ROWS,
        HEALTH,
        rows=(
            ReadingRow("remapped rows", rows_text),
            ReadingRow("remap pending", lambda rows: "yes: reset the GPU" if rows.pending else "no"),
            ReadingRow("remap failed", lambda rows: "yes: replace the GPU" if rows.failed else "no"),
        ),
    ),
    DeviceReading("retired_pages", Cadence.RARELY, NUMBER, between(0, 10**6), HEALTH, "retired pages"),
    DeviceReading("recovery_action", Cadence.SELDOM, TEXT, anything, HEALTH, "recovery action"),
    DeviceReading("uuid", Cadence.ONCE, TEXT, anything, of_instances=True),
    DeviceReading("bus_id", Cadence.ONCE, TEXT, anything, IDENTITY, rows=(ReadingRow("bus", _known_text),)),
    DeviceReading("serial", Cadence.ONCE, TEXT, anything, IDENTITY, "serial"),
    DeviceReading("vbios", Cadence.ONCE, TEXT, anything, IDENTITY, "VBIOS"),
    DeviceReading("architecture", Cadence.ONCE, TEXT, anything, IDENTITY, "architecture"),
    DeviceReading("compute_capability", Cadence.ONCE, TEXT, anything, IDENTITY, "compute capability"),
    DeviceReading("compute_mode", Cadence.RARELY, TEXT, anything, IDENTITY, "compute mode"),
    DeviceReading("persistence_mode", Cadence.RARELY, SWITCH, anything, IDENTITY, "persistence mode"),
    DeviceReading("display_active", Cadence.RARELY, DISPLAY, anything, IDENTITY, "display"),
    DeviceReading("mig_mode", Cadence.SELDOM, MIG_SWITCH, anything, IDENTITY, "MIG"),
)

READING_OF = {reading.field: reading for reading in READINGS}

GRAPHED = tuple(reading for reading in READINGS if reading.graph)
"""The readings whose history is kept."""

"""What `nvidia-smi -q -x` says of a device, by gputui's readings: where it stands there, and how it is compared."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple
from xml.etree.ElementTree import Element

from gputui.model.machine.device import THROTTLE_SENTENCES
from gputui.units import MIB

Value = str | float | bool

NOTHING = frozenset({"n/a", "[n/a]", "not supported", "[not supported]", "unknown error", ""})
"""How nvidia-smi says that there is no value."""


class Row(NamedTuple):
    """A field of `Device`, perhaps with a part of it: "memory.total_bytes", and where nvidia-smi has it.

    Of `paths` the first counts that is there; "a+b" is the sum of both. What changes from moment to moment may lie so
    far beside gputui's readings before and after as `slack` says.
    """

    field: str
    paths: tuple[str, ...]
    read: Callable[[str], Value]
    slack: float = 0.0

    def of(self, gpu: Element) -> Value | None:
        """The value that nvidia-smi has; None where it says that there is none. Raises KeyError without such a line."""
        for path in self.paths:
            texts = [gpu.findtext(part) for part in path.split("+")]
            known = [text.strip() for text in texts if text is not None]
            if known:
                values = [self.read(text) for text in known if text.lower() not in NOTHING]
                return values[0] if len(values) == 1 else sum(map(float, values)) if values else None
        raise KeyError(self.field)


def number(text: str) -> float:
    """The first number in "58 C", "16x" or "644.88 W"."""
    found = re.search(r"-?\d+(\.\d+)?", text)
    return float(found[0]) if found else float("nan")


def mebibytes(text: str) -> float:
    """As bytes."""
    return number(text) * MIB


def words(text: str) -> str:
    """In small letters, with spaces."""
    return text.lower().replace("_", " ")


def is_on(text: str) -> bool:
    """Whether it says so."""
    return text.lower() in ("enabled", "active", "yes")


def _reason(name: str) -> tuple[str, ...]:
    theirs = {"display_clock_setting": "display_clocks_setting"}.get(name, name)
    return tuple(f"clocks_{kind}_reasons/clocks_{kind}_reason_{theirs}" for kind in ("event", "throttle"))


_RECOVERIES = {"reset": "GPU reset", "reboot": "node reboot"}
_FLICKER = ("gpu_idle", "sw_power_cap")
"""Reasons that come and go within a second."""
_LINK = "pci/pci_gpu_link_info"
_ECC = "ecc_errors/volatile"
_SRAM = ("sram_uncorrectable_parity", "sram_uncorrectable_secded"), ("sram_uncorrectable",)
UNCORRECTED = (
    *("+".join(f"{_ECC}/{name}" for name in (*sram, "dram_uncorrectable")) for sram in _SRAM),
    f"{_ECC}/double_bit/total",
)
RETIRED = [f"retired_pages/{why}/retired_count" for why in ("multiple_single_bit_retirement", "double_bit_retirement")]

ROWS = (
    Row("name", ("product_name",), str),
    Row("uuid", ("uuid",), str),
    Row("bus_id", ("pci/pci_bus_id",), str),
    Row("memory.total_bytes", ("fb_memory_usage/total",), mebibytes, MIB),
    Row("memory.driver_reserved_bytes", ("fb_memory_usage/reserved",), mebibytes, MIB),
    Row("memory.used_bytes", ("fb_memory_usage/used",), mebibytes, 64 * MIB),
    Row("memory.free_bytes", ("fb_memory_usage/free",), mebibytes, 64 * MIB),
    Row("bar1.total_bytes", ("bar1_memory_usage/total",), mebibytes, MIB),
    Row("bar1.used_bytes", ("bar1_memory_usage/used",), mebibytes, 64 * MIB),
    Row("gpu_utilization_percent", ("utilization/gpu_util",), number, 30),
    Row("memory_utilization_percent", ("utilization/memory_util",), number, 30),
    Row("encoder_percent", ("utilization/encoder_util",), number, 10),
    Row("decoder_percent", ("utilization/decoder_util",), number, 10),
    Row("temperature_c", ("temperature/gpu_temp",), number, 5),
    Row("memory_temperature_c", ("temperature/memory_temp",), number, 5),
    Row("slowdown_temperature_c", ("temperature/gpu_temp_slow_threshold",), number),
    Row("shutdown_temperature_c", ("temperature/gpu_temp_max_threshold",), number),
    Row("fan_percent", ("fan_speed",), number, 10),
    Row("power_w", ("gpu_power_readings/average_power_draw", "gpu_power_readings/power_draw",
                    "power_readings/power_draw"), number, 150),
    Row("power_limit_w", ("gpu_power_readings/current_power_limit", "gpu_power_readings/power_limit",
                          "power_readings/enforced_power_limit"), number, 0.5),
    Row("sm_clock_mhz", ("clocks/sm_clock",), number, 300),
    Row("memory_clock_mhz", ("clocks/mem_clock",), number, 300),
    Row("max_sm_clock_mhz", ("max_clocks/sm_clock",), number),
    Row("max_memory_clock_mhz", ("max_clocks/mem_clock",), number),
    Row("pstate", ("performance_state",), str),
    *(Row(f"throttle_reasons.{name}", _reason(name), is_on) for name in THROTTLE_SENTENCES if name not in _FLICKER),
    Row("pcie.generation", (f"{_LINK}/pcie_gen/current_link_gen",), number),
    Row("pcie.max_generation", (f"{_LINK}/pcie_gen/max_link_gen",), number),
    Row("pcie.width", (f"{_LINK}/link_widths/current_link_width",), number),
    Row("pcie.max_width", (f"{_LINK}/link_widths/max_link_width",), number),
    Row("ecc_corrected", (f"{_ECC}/sram_correctable+{_ECC}/dram_correctable", f"{_ECC}/single_bit/total"), number),
    Row("ecc_uncorrected", UNCORRECTED, number),
    Row("remapped_rows.correctable", ("remapped_rows/remapped_row_corr",), number),
    Row("remapped_rows.uncorrectable", ("remapped_rows/remapped_row_unc",), number),
    Row("remapped_rows.pending", ("remapped_rows/remapped_row_pending",), is_on),
    Row("remapped_rows.failed", ("remapped_rows/remapped_row_failure",), is_on),
    Row("retired_pages", ("+".join(RETIRED),), number),
    Row("recovery_action", ("gpu_recovery_action",), lambda text: _RECOVERIES.get(text.lower(), text)),
    Row("persistence_mode", ("persistence_mode",), is_on),
    Row("compute_mode", ("compute_mode",), words),
    Row("display_active", ("display_active",), is_on),
    Row("mig_mode.is_enabled", ("mig_mode/current_mig",), is_on),
    Row("mig_mode.is_enabled_after_reset", ("mig_mode/pending_mig",), is_on),
    Row("vbios", ("vbios_version",), str),
    Row("serial", ("serial",), str),
    Row("architecture", ("product_architecture",), lambda text: text.removesuffix(" Lovelace")),
)  # fmt: skip

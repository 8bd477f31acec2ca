"""Every reading of a device as data: which field, which NVML call, for how long an answer holds, and what it means.

A new reading is a field of `gputui.model.device.Device` and a line of `READINGS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gputui.model.device import Bar1, DeviceMemory, PcieLink, RemappedRows
from gputui.model.reading import Absent
from gputui.sources.nvml.binding import Raw
from gputui.sources.nvml.codes import Code, absent_of

EVERY_LOOK = 0.0
OFTEN = 1.8
SELDOM = 4.8
RARELY = 29.0
ONCE = float("inf")
"""For how many seconds an answer holds; a little less than 2, 5 and 30 so that a look a bit early counts."""


class Ask(NamedTuple):
    """One NVML call about a device: a function of nvidia-ml-py and its arguments after the device's handle.

    `otherwise` is asked instead where the driver or the device does not know the function.
    """

    function: str
    arguments: tuple[Any, ...] = ()
    lifetime_s: float = ONCE
    otherwise: Ask | None = None


class Row(NamedTuple):
    """A field of `Device` and how it is read: `convert` gets one answer for each of `asks`.

    `of_instances` marks what NVML answers for a MIG instance; the rest is measured for the whole device only.
    """

    field: str
    asks: tuple[Ask, ...]
    convert: Callable[..., Any]
    of_instances: bool = False


def row(
    field: str, ask: Ask, convert: Callable[[Any], Any] = lambda answer: answer, *, of_instances: bool = False
) -> Row:
    """A row with a single call, the usual case; without `convert` the answer is the reading."""
    return Row(field, (ask,), convert, of_instances)


def _memory(info: Raw) -> DeviceMemory:
    # Version 1 has no `reserved` and counts the driver's own memory as used.
    return DeviceMemory(info.total, info.used, info.free, getattr(info, "reserved", None))


def _watts(milliwatts: int) -> float:
    return milliwatts / 1000


def _word(words: dict[int, str]) -> Callable[[int], str | Absent]:
    return lambda number: words.get(number, Absent(f"not known: NVML answered {number}"))


def _throttle_reasons(mask: int) -> tuple[str, ...]:
    return tuple(word for bit, word in THROTTLE_BITS.items() if mask & bit)


def _mig_mode(modes: list[int]) -> str:
    current, pending = (_ON_OFF.get(mode, f"mode {mode}") for mode in modes)
    return current if current == pending else f"{current} ({pending} after the next reset)"


def _field(position: int) -> Callable[[Any], int | float | Absent]:
    """The value at `position` of an answer of nvmlDeviceGetFieldValues."""
    return lambda values: field_value(values[position])


def field_value(value: Raw) -> int | float | Absent:
    """What an nvmlFieldValue_t holds: a union, an error number of its own, and the type that tells them apart."""
    if value.nvmlReturn != Code.SUCCESS:
        return absent_of(value.nvmlReturn)
    if value.valueType not in range(len(_MEMBERS)):
        return Absent(f"not known: NVML answered with a value of type {value.valueType}")
    number: int | float = getattr(value.value, _MEMBERS[value.valueType])
    return number


_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""The union's members by nvmlValueType_t."""

_ON_OFF = {0: "off", 1: "on"}
_COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
_ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}

THROTTLE_BITS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
"""nvmlClocksEventReasons, in the words of `gputui.model.device`."""

_MEMORY_V2 = 0x02000028
"""nvmlMemory_v2: the structure's size and version."""
_GPU, _SHUTDOWN, _SLOWDOWN, _SM, _MEM, _CORRECTED, _UNCORRECTED, _VOLATILE = 0, 0, 1, 1, 2, 0, 1, 0
"""Arguments: a temperature sensor, two thresholds, two clocks, two types of ECC errors and what counts them."""

MEMORY = Ask("nvmlDeviceGetMemoryInfo", (_MEMORY_V2,), EVERY_LOOK, Ask("nvmlDeviceGetMemoryInfo", (), EVERY_LOOK))
_UTILIZATION = Ask("nvmlDeviceGetUtilizationRates", (), EVERY_LOOK)
_THROTTLE = Ask(
    "nvmlDeviceGetCurrentClocksEventReasons", (), OFTEN, Ask("nvmlDeviceGetCurrentClocksThrottleReasons", (), OFTEN)
)
_FIELDS = Ask("nvmlDeviceGetFieldValues", ((82, 83),), SELDOM)
"""Memory temperature and energy (NVML_FI_DEV_MEMORY_TEMP, NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION) in one call."""
_PCIE = (
    Ask("nvmlDeviceGetCurrPcieLinkGeneration", (), SELDOM),
    Ask("nvmlDeviceGetCurrPcieLinkWidth", (), SELDOM),
    Ask("nvmlDeviceGetMaxPcieLinkGeneration"),
    Ask("nvmlDeviceGetMaxPcieLinkWidth"),
)
_RETIRED = (Ask("nvmlDeviceGetRetiredPages", (0,), RARELY), Ask("nvmlDeviceGetRetiredPages", (1,), RARELY))
"""Pages retired after several single-bit errors, and after one double-bit error."""
MIG_MODE = Ask("nvmlDeviceGetMigMode", (), SELDOM)

READINGS = (
    row("name", Ask("nvmlDeviceGetName"), of_instances=True),
    row("uuid", Ask("nvmlDeviceGetUUID"), of_instances=True),
    row("bus_id", Ask("nvmlDeviceGetPciInfo"), lambda pci: pci.busId),
    row("memory", MEMORY, _memory, of_instances=True),
    row("gpu_utilization_percent", _UTILIZATION, lambda rates: rates.gpu),
    row("memory_utilization_percent", _UTILIZATION, lambda rates: rates.memory),
    row("encoder_percent", Ask("nvmlDeviceGetEncoderUtilization", (), SELDOM), lambda answer: answer[0]),
    row("decoder_percent", Ask("nvmlDeviceGetDecoderUtilization", (), SELDOM), lambda answer: answer[0]),
    row("temperature_c", Ask("nvmlDeviceGetTemperature", (_GPU,), EVERY_LOOK)),
    row("memory_temperature_c", _FIELDS, _field(0)),
    row("slowdown_temperature_c", Ask("nvmlDeviceGetTemperatureThreshold", (_SLOWDOWN,))),
    row("shutdown_temperature_c", Ask("nvmlDeviceGetTemperatureThreshold", (_SHUTDOWN,))),
    row("fan_percent", Ask("nvmlDeviceGetFanSpeed", (), SELDOM)),
    row("power_w", Ask("nvmlDeviceGetPowerUsage", (), EVERY_LOOK), _watts),
    row("power_limit_w", Ask("nvmlDeviceGetEnforcedPowerLimit", (), RARELY), _watts),
    row("energy_j", _FIELDS, lambda values: _joules(field_value(values[1]))),
    row("sm_clock_mhz", Ask("nvmlDeviceGetClockInfo", (_SM,), OFTEN)),
    row("memory_clock_mhz", Ask("nvmlDeviceGetClockInfo", (_MEM,), SELDOM)),
    row("max_sm_clock_mhz", Ask("nvmlDeviceGetMaxClockInfo", (_SM,))),
    row("max_memory_clock_mhz", Ask("nvmlDeviceGetMaxClockInfo", (_MEM,))),
    row("pstate", Ask("nvmlDeviceGetPerformanceState", (), SELDOM), _word({n: f"P{n}" for n in range(16)})),
    row("throttle_reasons", _THROTTLE, _throttle_reasons),
    Row("pcie", _PCIE, PcieLink),
    row("bar1", Ask("nvmlDeviceGetBAR1MemoryInfo", (), RARELY), lambda bar1: Bar1(bar1.bar1Total, bar1.bar1Used)),
    row("ecc_corrected", Ask("nvmlDeviceGetTotalEccErrors", (_CORRECTED, _VOLATILE), RARELY)),
    row("ecc_uncorrected", Ask("nvmlDeviceGetTotalEccErrors", (_UNCORRECTED, _VOLATILE), RARELY)),
    row(
        "remapped_rows",
        Ask("nvmlDeviceGetRemappedRows", (), RARELY),
        lambda rows: RemappedRows(rows[0], rows[1], bool(rows[2]), bool(rows[3])),
    ),
    Row("retired_pages", _RETIRED, lambda single, double: len(single) + len(double)),
    row("persistence_mode", Ask("nvmlDeviceGetPersistenceMode", (), RARELY), _word(_ON_OFF)),
    row("compute_mode", Ask("nvmlDeviceGetComputeMode", (), RARELY), _word(_COMPUTE_MODES)),
    row("display_active", Ask("nvmlDeviceGetDisplayActive", (), RARELY), _word({0: "no", 1: "yes"})),
    row("mig_mode", MIG_MODE, _mig_mode),
    row("vbios", Ask("nvmlDeviceGetVbiosVersion")),
    row("serial", Ask("nvmlDeviceGetSerial")),
    row("architecture", Ask("nvmlDeviceGetArchitecture"), _word(_ARCHITECTURES)),
    row("compute_capability", Ask("nvmlDeviceGetCudaComputeCapability"), lambda version: f"{version[0]}.{version[1]}"),
)
"""In `Device`'s order. The NVML calls of a second are counted in a test: EVERY_LOOK is for what a glance needs."""


def _joules(millijoules: int | float | Absent) -> float | Absent:
    return millijoules if isinstance(millijoules, Absent) else millijoules / 1000

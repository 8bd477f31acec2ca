"""The NVML call behind each reading of a device, and how its answer becomes the reading.

What the readings are, and how often each is taken, is declared in `gputui.model.machine.device_readings`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gputui.model.machine.device import Bar1, DeviceMemory, MigMode, PcieLink, RemappedRows
from gputui.model.machine.device_readings import READINGS
from gputui.model.machine.reading_declaration import Cadence, DeviceReading
from gputui.model.reading import Absent
from gputui.sources.nvml.binding import Raw
from gputui.sources.nvml.errors import Code, absent_of

LIFETIME_S = {
    Cadence.EACH_LOOK: 0.0,
    Cadence.OFTEN: 1.8,
    Cadence.SELDOM: 4.8,
    Cadence.RARELY: 29.0,
    Cadence.ONCE: float("inf"),
}
"""For how many seconds an answer holds: a little less than 2, 5 and 30, so that a look may come slightly early."""


class Call(NamedTuple):
    """One NVML call about a device: a function of nvidia-ml-py and its arguments after the device's handle.

    The answer holds for `lifetime_s`. `otherwise` is called instead where the driver or the device does not know the
    function.
    """

    function: str
    arguments: tuple[Any, ...] = ()
    lifetime_s: float = LIFETIME_S[Cadence.ONCE]
    otherwise: Call | None = None

    def at(self, cadence: Cadence) -> Call:
        """The same call, made that often."""
        return self._replace(lifetime_s=LIFETIME_S[cadence], otherwise=self.otherwise and self.otherwise.at(cadence))


def _unchanged(answer: Raw) -> Raw:
    return answer


class FieldCalls(NamedTuple):
    """The calls behind a field of `Device`; `convert` gets the answer of each in turn."""

    calls: tuple[Call, ...]
    convert: Callable[..., Any]
    checked: Callable[[Any], Any] = _unchanged
    """Makes an impossible value absent."""


def _memory(info: Raw) -> DeviceMemory:
    # Version 1 has no `reserved` and counts the driver's own memory as used.
    return DeviceMemory(info.total, info.used, info.free, getattr(info, "reserved", None))


def _watts(milliwatts: int) -> float:
    return milliwatts / 1000


def _word(words: dict[int, str]) -> Callable[[int], str | Absent]:
    return lambda number: words.get(number, Absent(f"not known: NVML answered {number}"))


def _throttle_reasons(mask: int) -> tuple[str, ...]:
    return tuple(word for bit, word in THROTTLE_BITS.items() if mask & bit)


def _remapped_rows(rows: list[int]) -> RemappedRows | Absent:
    correctable, uncorrectable, *flags = rows
    is_pending, has_failed = map(_flag, flags)
    if isinstance(is_pending, Absent):
        return is_pending
    if isinstance(has_failed, Absent):
        return has_failed
    return RemappedRows(correctable, uncorrectable, is_pending, has_failed)


def _flag(number: int) -> bool | Absent:
    return Absent(f"not known: NVML answered {number}") if number not in (0, 1) else number == 1


def _mig_mode(modes: list[int]) -> MigMode | Absent:
    current, pending = map(_flag, modes)
    if isinstance(current, Absent):
        return current
    return pending if isinstance(pending, Absent) else MigMode(current, pending)


def _joules(values: list[Raw]) -> float | Absent:
    millijoules = field_value(values[1])
    return millijoules if isinstance(millijoules, Absent) else millijoules / 1000


def _recovery_action(value: Raw) -> str | Absent:
    number = field_value(value)
    return number if isinstance(number, Absent) else _word(_RECOVERY_ACTIONS)(int(number))


def field_value(value: Raw) -> int | float | Absent:
    """The number in an nvmlFieldValue_t, which has an error number of its own, and a union with its type."""
    if value.nvmlReturn != Code.SUCCESS:
        return absent_of(value.nvmlReturn)
    if value.valueType not in range(len(_MEMBERS)):
        return Absent(f"not known: NVML answered with a value of type {value.valueType}")
    number: int | float = getattr(value.value, _MEMBERS[value.valueType])
    return number


_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""The union's members by nvmlValueType_t."""

_RECOVERY_ACTIONS = {
    0: "none",
    1: "GPU reset",
    2: "node reboot",
    3: "drain P2P",
    4: "drain and reset",
    5: "recover IMEX domain",
    6: "bus reset",
    7: "system reboot",
}
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
"""nvmlClocksEventReasons, in the words of `gputui.model.machine.device`."""

_MEMORY_V2 = 0x02000028
"""nvmlMemory_v2: the structure's size and version."""
_GPU, _SHUTDOWN, _SLOWDOWN, _SM, _MEM, _CORRECTED, _UNCORRECTED, _VOLATILE = 0, 0, 1, 1, 2, 0, 1, 0
"""Arguments: a temperature sensor, two thresholds, two clocks, two types of ECC errors and what counts them."""
_FIELDS = (82, 83, 230)
"""NVML_FI_DEV_MEMORY_TEMP, _TOTAL_ENERGY_CONSUMPTION and _GET_GPU_RECOVERY_ACTION, which one call answers together."""
_SEVERAL_SINGLE_BIT, _DOUBLE_BIT = 0, 1
"""Why a page was retired."""


def _one(
    function: str,
    *arguments: object,
    convert: Callable[[Any], Any] = _unchanged,
    otherwise: Call | None = None,
) -> FieldCalls:
    """A field with a single call, the usual case; without `convert` the answer is the reading."""
    return FieldCalls((Call(function, arguments, otherwise=otherwise),), convert)


_CALLS = {
    "name": _one("nvmlDeviceGetName"),
    "uuid": _one("nvmlDeviceGetUUID"),
    "bus_id": _one("nvmlDeviceGetPciInfo", convert=lambda pci: pci.busId),
    "memory": _one("nvmlDeviceGetMemoryInfo", _MEMORY_V2, convert=_memory, otherwise=Call("nvmlDeviceGetMemoryInfo")),
    "gpu_utilization_percent": _one("nvmlDeviceGetUtilizationRates", convert=lambda rates: rates.gpu),
    "memory_utilization_percent": _one("nvmlDeviceGetUtilizationRates", convert=lambda rates: rates.memory),
    "encoder_percent": _one("nvmlDeviceGetEncoderUtilization", convert=lambda answer: answer[0]),
    "decoder_percent": _one("nvmlDeviceGetDecoderUtilization", convert=lambda answer: answer[0]),
    "temperature_c": _one("nvmlDeviceGetTemperature", _GPU),
    "memory_temperature_c": _one("nvmlDeviceGetFieldValues", _FIELDS, convert=lambda values: field_value(values[0])),
    "slowdown_temperature_c": _one("nvmlDeviceGetTemperatureThreshold", _SLOWDOWN),
    "shutdown_temperature_c": _one("nvmlDeviceGetTemperatureThreshold", _SHUTDOWN),
    "fan_percent": _one("nvmlDeviceGetFanSpeed"),
    "power_w": _one("nvmlDeviceGetPowerUsage", convert=_watts),
    "power_limit_w": _one("nvmlDeviceGetEnforcedPowerLimit", convert=_watts),
    "energy_j": _one("nvmlDeviceGetFieldValues", _FIELDS, convert=_joules),
    "sm_clock_mhz": _one("nvmlDeviceGetClockInfo", _SM),
    "memory_clock_mhz": _one("nvmlDeviceGetClockInfo", _MEM),
    "max_sm_clock_mhz": _one("nvmlDeviceGetMaxClockInfo", _SM),
    "max_memory_clock_mhz": _one("nvmlDeviceGetMaxClockInfo", _MEM),
    "pstate": _one("nvmlDeviceGetPerformanceState", convert=_word({number: f"P{number}" for number in range(16)})),
    "throttle_reasons": _one(
        "nvmlDeviceGetCurrentClocksEventReasons",
        convert=_throttle_reasons,
        otherwise=Call("nvmlDeviceGetCurrentClocksThrottleReasons"),
    ),
    "pcie": FieldCalls(
        (
            Call("nvmlDeviceGetCurrPcieLinkGeneration"),
            Call("nvmlDeviceGetCurrPcieLinkWidth"),
            Call("nvmlDeviceGetMaxPcieLinkGeneration"),
            Call("nvmlDeviceGetMaxPcieLinkWidth"),
        ),
        PcieLink,
    ),
    "bar1": _one("nvmlDeviceGetBAR1MemoryInfo", convert=lambda bar1: Bar1(bar1.bar1Total, bar1.bar1Used)),
    "ecc_corrected": _one("nvmlDeviceGetTotalEccErrors", _CORRECTED, _VOLATILE),
    "ecc_uncorrected": _one("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE),
    "remapped_rows": _one("nvmlDeviceGetRemappedRows", convert=_remapped_rows),
    "retired_pages": FieldCalls(
        (
            Call("nvmlDeviceGetRetiredPages", (_SEVERAL_SINGLE_BIT,)),
            Call("nvmlDeviceGetRetiredPages", (_DOUBLE_BIT,)),
        ),
        lambda *pages: sum(pages),
    ),
    "recovery_action": _one("nvmlDeviceGetFieldValues", _FIELDS, convert=lambda values: _recovery_action(values[2])),
    "persistence_mode": _one("nvmlDeviceGetPersistenceMode", convert=_flag),
    "compute_mode": _one("nvmlDeviceGetComputeMode", convert=_word(_COMPUTE_MODES)),
    "display_active": _one("nvmlDeviceGetDisplayActive", convert=_flag),
    "mig_mode": _one("nvmlDeviceGetMigMode", convert=_mig_mode),
    "vbios": _one("nvmlDeviceGetVbiosVersion"),
    "serial": _one("nvmlDeviceGetSerial"),
    "architecture": _one("nvmlDeviceGetArchitecture", convert=_word(_ARCHITECTURES)),
    "compute_capability": _one(
        "nvmlDeviceGetCudaComputeCapability", convert=lambda version: f"{version[0]}.{version[1]}"
    ),
}
_CONSTANT = frozenset({"nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkWidth"})
"""Functions whose answer never changes, although the reading is taken often for the sake of other calls."""


def _calls_of(reading: DeviceReading) -> FieldCalls:
    calls, convert, _ = _CALLS[reading.field]
    return FieldCalls(
        tuple(call if call.function in _CONSTANT else call.at(reading.cadence) for call in calls),
        convert,
        reading.checked,
    )


_ELSEWHERE = (Cadence.WATCHED, Cadence.MEAN)
_BETWEEN_TWO = frozenset({"throttled"})
"""Readings computed from two answers over time: see `throttling`."""

CALLS = {
    reading.field: _calls_of(reading)
    for reading in READINGS
    if reading.cadence not in _ELSEWHERE and reading.field not in _BETWEEN_TWO
}
"""The calls behind each field, made as often as the cadence of its reading says; readings that are taken only while
somebody looks, in a thread of their own, or between two answers are not here. A test counts the calls of a second, so
give EACH_LOOK only to what a glance needs."""

MEMORY = CALLS["memory"].calls[0]
MIG_MODE = CALLS["mig_mode"].calls[0]

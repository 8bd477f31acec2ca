"""The share of the time in which a GPU's clocks were lowered, by NVML's counters: single looks miss what flickers."""

from __future__ import annotations

from typing import NamedTuple

from gputui.model.machine.device import Throttled
from gputui.model.machine.device_readings import READING_OF
from gputui.model.reading import NOT_READ, Absent, Reading, value_of
from gputui.sources.nvml.binding import Raw
from gputui.sources.nvml.calls import Call, FieldCalls

_READING = READING_OF["throttled"]
_POWER, _THERMAL = 0, 1
"""nvmlPerfPolicyType_t."""
_NS_OF_US = 1000
_COUNTED = {"sw_power_cap": "power_percent", "sw_thermal_slowdown": "thermal_percent"}
"""Reasons that have a counter, and their fields in `Throttled`."""
_LEAST_PERCENT = 1.0


class Counter(NamedTuple):
    """For how long (nanoseconds) the clocks were lowered until a time (microseconds)."""

    at_us: int
    lowered_ns: int


def _counters(*times: Raw) -> tuple[Counter, ...]:
    return tuple(Counter(time.referenceTime, time.violationTime) for time in times)


COUNTERS = FieldCalls(
    tuple(Call("nvmlDeviceGetViolationStatus", (policy,)).at(_READING.cadence) for policy in (_POWER, _THERMAL)),
    _counters,
)
"""The calls behind `Device.throttled`; their reading is a `Counter` of each."""


class Throttling:
    """The counters of one GPU, from reading to reading."""

    def __init__(self) -> None:
        self._last: tuple[Counter, ...] = ()
        self._between: Reading[Throttled] = NOT_READ

    def between(self, counters: Reading[tuple[Counter, ...]]) -> Reading[Throttled]:
        """The shares of the time between the last two readings; absent until there are two."""
        if isinstance(counters, Absent):
            self._last = ()
            return counters
        if counters != self._last:
            before, self._last = self._last, counters
            self._between = _between(before, counters)
        return self._between


def _between(before: tuple[Counter, ...], after: tuple[Counter, ...]) -> Reading[Throttled]:
    if not before or any(new.at_us <= old.at_us for old, new in zip(before, after, strict=True)):
        return NOT_READ
    shares = (
        100 * (new.lowered_ns - old.lowered_ns) / (_NS_OF_US * (new.at_us - old.at_us))
        for old, new in zip(before, after, strict=True)
    )
    return _READING.checked(Throttled(*(min(share, 100.0) for share in shares)))  # two clocks count


def lasting(reasons: Reading[tuple[str, ...]], throttled: Reading[Throttled]) -> Reading[tuple[str, ...]]:
    """The throttle reasons: those with a counter by their share of the time since the last reading, others by now."""
    shares = value_of(throttled)
    if isinstance(reasons, Absent) or shares is None:
        return reasons
    counted = [reason for reason, part in _COUNTED.items() if getattr(shares, part) >= _LEAST_PERCENT]
    return (*counted, *(reason for reason in reasons if reason not in _COUNTED))

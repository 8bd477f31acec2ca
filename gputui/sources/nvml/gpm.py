"""True utilisation by NVML's GPM, which Hopper and newer have: how much a GPU's units worked between two samples.

A sample takes up to 1.5 ms, and metrics between two samples up to 4 ms, so a thread of its own reads them. GPM needs no
privileges, and does not take the counters from a profiler.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, NamedTuple

from gputui.model.machine.device_readings import READING_OF
from gputui.model.machine.profile_readings import PROFILED
from gputui.model.reading import NOT_READ, Absent, AbsentKind, Reading
from gputui.sources.nvml.binding import Handle, Nvml
from gputui.sources.nvml.errors import UNSUPPORTED, Code, NvmlError, absent_of
from gputui.sources.nvml.slow import SlowReadings

Profile = Mapping[str, Reading[Any]]
"""Readings by their fields in `Device`."""

_MIB = 1 << 20

_METRICS: dict[int, tuple[str, float]] = {
    2: ("sm_active_percent", 1),
    3: ("sm_occupancy_percent", 1),
    5: ("tensor_percent", 1),
    10: ("dram_percent", 1),
    11: ("fp64_percent", 1),
    12: ("fp32_percent", 1),
    13: ("fp16_percent", 1),
    4: ("integer_percent", 1),
    20: ("pcie_tx_bytes_per_s", _MIB),
    21: ("pcie_rx_bytes_per_s", _MIB),
}
"""By nvmlGpmMetricId_t: the field in `Device`, and the factor from NVML's unit to the field's."""

NO_GPM = Absent(
    "this GPU has no GPM, which Hopper and newer have, and no dcgm-exporter here has its profiling metrics",
    AbsentKind.NOT_SUPPORTED,
)

_FIRST_S = 0.1
"""The least time between two samples. The first reading comes after it; later readings are of the whole interval."""


class Instance(NamedTuple):
    """A MIG instance by its number, which is sampled through the handle of its GPU."""

    gpu: Handle
    number: int


class GpmReadings(SlowReadings[Profile]):
    """Reads all devices that have GPM, each reading for the time since the last one.

    A look that comes at least `interval_s` after the last reading starts the next: without looks, nothing is read.
    """

    THREAD = "gputui-gpm"

    def __init__(self, interval_s: float = 1.8, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(interval_s)
        self._clock = clock
        self._due_at = float("-inf")
        self._samples: dict[str, _Samples] = {}

    def serve(self, nvml: Nvml | None, handles: Mapping[str, Handle]) -> None:
        """Take the handles of the devices that answer, and have the thread read them all if that is due."""
        now = self._clock()
        if now >= self._due_at:
            self._due_at = now + self._interval_s
            self._is_new = True
        super().serve(nvml, handles)
        self.watch(frozenset(handles))

    def wait(self, timeout_s: float) -> None:
        """Wait until all devices have been read, for a program that looks once."""
        with self._changed:
            self._changed.wait_for(self._has_all, timeout_s)

    def _has_all(self) -> bool:
        return all(key in self._readings and NOT_READ not in self._readings[key].values() for key in self._handles)

    def _pause_s(self) -> float | None:
        return None if self._has_all() else _FIRST_S

    def _read(self, nvml: Nvml, key: str, handle: Handle) -> Profile:
        try:
            return self._since_last(nvml, key, handle)
        except NvmlError as error:
            if key in self._samples:
                self._samples[key].has_last = False
            absent = error.absent
            if error.code in UNSUPPORTED:
                self._unsupported.add(key)
                absent = NO_GPM
            return dict.fromkeys(PROFILED, absent)

    def _since_last(self, nvml: Nvml, key: str, handle: Handle) -> Profile:
        samples = self._samples.get(key)
        if samples is None or samples.nvml is not nvml:
            gpu = handle.gpu if isinstance(handle, Instance) else handle
            if not nvml.call("nvmlGpmQueryDeviceSupport", gpu).isSupportedDevice:
                self._unsupported.add(key)
                return dict.fromkeys(PROFILED, NO_GPM)
            samples = self._samples[key] = _Samples(nvml)
        if not samples.has_last:
            _sample(nvml, handle, samples.last)
            samples.has_last = True
            return dict.fromkeys(PROFILED, NOT_READ)
        _sample(nvml, handle, samples.next)
        samples.last, samples.next = samples.next, samples.last
        metrics = nvml.call("nvmlGpmMetrics", (samples.next, samples.last), tuple(_METRICS))
        profile: dict[str, Reading[Any]] = {"profile_source": "gpm"}
        for (field, scale), (code, value) in zip(_METRICS.values(), metrics, strict=True):
            reading = _reading(field, code, value * scale)
            if field in PROFILED or not isinstance(reading, Absent):  # PCIe rates have another source, too
                profile[field] = reading
        return profile


class _Samples:
    """The last sample of a device and room for the next one; both belong to this initialised `nvml`."""

    def __init__(self, nvml: Nvml) -> None:
        self.nvml = nvml
        self.last, self.next = (nvml.call("nvmlGpmSampleAlloc") for _ in range(2))
        self.has_last = False


def _sample(nvml: Nvml, handle: Handle, sample: Handle) -> None:
    if isinstance(handle, Instance):
        nvml.call("nvmlGpmMigSampleGet", handle.gpu, handle.number, sample)
    else:
        nvml.call("nvmlGpmSampleGet", handle, sample)


def _reading(field: str, code: int, value: float) -> Reading[float]:
    if code != Code.SUCCESS:
        return absent_of(code)
    if not isfinite(value):
        return Absent(f"not known: NVML answered {value}")
    return READING_OF[field].checked(value if field in PROFILED else round(value))

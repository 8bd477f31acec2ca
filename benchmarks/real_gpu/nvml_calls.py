"""How long each NVML call of gputui takes, and what GPM measures beside a training."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress

from benchmarks.real_gpu.place import Place, Running
from benchmarks.real_gpu.result import Result, Size
from gputui.model.machine.profile_readings import PROFILED
from gputui.model.reading import Absent
from gputui.sources.nvml.binding import Nvml, Raw
from gputui.sources.nvml.errors import NvmlError
from gputui.sources.nvml.gpm import GpmReadings
from gputui.sources.nvml.session import Session
from gputui.sources.nvml.source import NvmlSource

FAST_MS = 5.0
"""What a call of each look takes at most, in the median; 3.3 ms was the slowest on an H200."""
APART = {"nvmlDeviceGetPcieThroughput": 30.0, "nvmlGpmSampleGet": 10.0, "nvmlGpmMetrics": 10.0}
"""Calls in threads of their own, which may take longer."""
ENOUGH_CALLS = 10
"""With fewer there is no median to speak of."""
RATES = (0, 1)
GPM_FROM = (9, 0)
"""Compute capability of Hopper, the first with GPM."""
ENOUGH_S, SAMPLES, APART_S = 60.0, 5, 1.0


class TimedNvml(Nvml):
    """NVML that notes how many milliseconds each call has taken, failed ones included, by function and numbers."""

    def __init__(self) -> None:
        self.taken_ms: dict[str, list[float]] = defaultdict(list)
        super().__init__()

    def call(self, function: str, *arguments: object) -> Raw:
        """As it is, with a clock."""
        began = time.perf_counter()
        try:
            return super().call(function, *arguments)
        finally:
            told = [str(argument) for argument in arguments if isinstance(argument, int) or _are_numbers(argument)]
            name = f"{function}({', '.join(told)})" if told else function
            self.taken_ms[name].append((time.perf_counter() - began) * 1e3)


def _are_numbers(argument: object) -> bool:
    return isinstance(argument, tuple) and all(isinstance(number, int) for number in argument)


def delays(_place: Place, size: Size, _running: Running) -> Result:
    """All calls of a look and those of a watched device, anew in each round: median and longest."""
    result, nvml = Result(), TimedNvml()
    try:
        for number in range(size.nvml_rounds):
            _ask_all(nvml, float(number))
    finally:
        nvml.close()
    for name, taken_ms in sorted(nvml.taken_ms.items(), key=lambda item: -statistics.median(item[1])):
        median = statistics.median(taken_ms)
        result.figures[name] = {"median, ms": round(median, 3), "longest, ms": round(max(taken_ms), 3)}
        most = APART.get(name.partition("(")[0], FAST_MS)
        if len(taken_ms) >= ENOUGH_CALLS:
            result.expect_time(name, f"{most:g} ms at most", f"{median:.1f} ms in the median", holds=median <= most)
    return result


def _ask_all(nvml: TimedNvml, now: float) -> None:
    session = Session(nvml)
    keys = frozenset(device.key for device in session.look(now, frozenset()).devices)
    session.look(now + 0.5, keys)
    gpm = GpmReadings()
    gpm.serve(nvml, session.to_sample())
    gpm.wait(ENOUGH_S)
    gpm.close()
    for handle in session.handles().values():
        for counter in RATES:
            with suppress(NvmlError):
                nvml.call("nvmlDeviceGetPcieThroughput", handle, counter)


def profile(_place: Place, size: Size, _running: Running) -> Result:
    """What GPM says of the first GPU while it trains, or why there is none."""
    result, source = Result(), NvmlSource()
    try:
        source.watch_profiles(within_s=ENOUGH_S)
        for _ in range(min(SAMPLES, size.nvml_rounds)):
            look = source.read()
            time.sleep(APART_S if size.watched_s else 0.0)
    finally:
        source.close()
    if look.problem:
        result.left_out.append(look.problem)
    for device in (device for device in look.devices if device.mig is None):
        readings = {name: getattr(device, name) for name in PROFILED}
        result.figures[f"device {device.index}"] = _shown(readings)
        if isinstance(device.compute_capability, Absent):
            continue
        is_new = tuple(map(int, device.compute_capability.split("."))) >= GPM_FROM
        what = f"GPM of device {device.index}, of compute capability {device.compute_capability}"
        is_there = device.profile_source == "gpm"
        words = "there" if is_new else "not there", "there" if is_there else _why(device.profile_source)
        result.expect(what, *words, holds=is_there == is_new)
    return result


def _shown(readings: Mapping[str, object]) -> dict[str, object]:
    return {
        name: _why(value) if isinstance(value, Absent) else round(value, 1) if isinstance(value, float) else value
        for name, value in readings.items()
    }


def _why(reading: object) -> str:
    return f"none: {reading.reason}" if isinstance(reading, Absent) else str(reading)

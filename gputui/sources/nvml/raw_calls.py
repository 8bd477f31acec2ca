"""Calls on the library itself: calls that nvidia-ml-py lacks, and lists, whose length nvidia-ml-py does not bound.

A function here takes nvidia-ml-py's module, and raises its `NVMLError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, byref, c_double, c_uint, c_ulonglong, c_void_p, cast
from functools import partial
from types import ModuleType
from typing import Any

from gputui.sources.nvml.errors import Code, TooManyError

_ENTRIES_AT_MOST = 100_000
"""More than a Linux machine has processes by default; a longer list is nonsense that would take all memory."""


class _FirstProcessInfo(Structure):
    """nvmlProcessInfo_t as drivers before 450 have it: without MIG."""

    _fields_ = (("pid", c_uint), ("usedGpuMemory", c_ulonglong))
    gpuInstanceId = computeInstanceId = 2**32 - 1  # noqa: N815 - NVML's names


def _checked(module: ModuleType, code: int) -> None:
    if code:
        raise module.NVMLError(code)


def _function(module: ModuleType, name: str) -> Callable[..., int]:
    try:
        function: Callable[..., int] = getattr(module.nvmlLib, name)
    except AttributeError:
        raise module.NVMLError(Code.FUNCTION_NOT_FOUND) from None
    return function


def _initialise(module: ModuleType) -> None:
    """Initialise NVML; where the driver lacks nvidia-ml-py's function for that (before 410), by an older function."""
    try:
        module.nvmlInit()
    except module.NVMLError as error:
        if error.value != Code.FUNCTION_NOT_FOUND:
            raise
        _checked(module, _function(module, "nvmlInit_v2")())


def _entries(module: ModuleType, entry: type[Structure], ask: Callable[[Any, Any], int]) -> Sequence[Any]:
    """The list that `ask` fills, given pointers to the number of entries and to the room for them."""
    count = c_uint(0)
    code = ask(byref(count), None)
    if code != Code.INSUFFICIENT_SIZE:
        _checked(module, code)
        return ()
    _check_count(count.value)
    room = 2 * count.value + 5  # more may be there the next moment
    entries = (entry * room)()
    count.value = room
    _checked(module, ask(byref(count), entries))
    _check_count(count.value)
    return entries[: count.value]


def _check_count(count: int) -> None:
    if count > _ENTRIES_AT_MOST:
        raise TooManyError(count)


def _processes(name: str, module: ModuleType, device: object) -> Sequence[Any]:
    function = _function(module, name)
    entry = module.c_nvmlProcessInfo_v2_t if name.endswith(("_v2", "_v3")) else _FirstProcessInfo
    return _entries(module, entry, lambda count, room: function(device, count, room))


def _samples(module: ModuleType, device: object, since_us: int) -> Sequence[Any]:
    function = _function(module, "nvmlDeviceGetProcessUtilization")
    entry = module.c_nvmlProcessUtilizationSample_t
    return _entries(module, entry, lambda count, room: function(device, room, count, c_ulonglong(since_us)))


def _retired_pages(module: ModuleType, device: object, cause: int) -> int:
    """How many pages were retired; their addresses are not read."""
    count = c_uint(0)
    code = _function(module, "nvmlDeviceGetRetiredPages")(device, c_uint(cause), byref(count), POINTER(c_ulonglong)())
    if code != Code.INSUFFICIENT_SIZE or not count.value:
        _checked(module, code)
    return count.value


class _GpmMetric(Structure):
    _fields_ = (("metricId", c_uint), ("nvmlReturn", c_uint), ("value", c_double), ("names", c_void_p * 3))


class _GpmMetricsGet(Structure):
    """nvmlGpmMetricsGet_t with room for more metrics: newer drivers have a longer array under the same version."""

    _fields_ = (
        ("version", c_uint),
        ("numMetrics", c_uint),
        ("sample1", c_void_p),
        ("sample2", c_void_p),
        ("metrics", _GpmMetric * 1024),
    )


def _gpm_metrics(module: ModuleType, samples: Sequence[Any], numbers: Sequence[int]) -> list[tuple[int, float]]:
    """The error number and the value of each metric, between two samples."""
    request = _GpmMetricsGet(1, len(numbers), *(cast(sample, c_void_p) for sample in samples))
    for metric, number in zip(request.metrics, numbers, strict=False):
        metric.metricId = number
    _checked(module, _function(module, "nvmlGpmMetricsGet")(byref(request)))
    return [(metric.nvmlReturn, metric.value) for metric in request.metrics[: len(numbers)]]


_LISTS = tuple(f"nvmlDeviceGet{kind}RunningProcesses" for kind in ("Compute", "Graphics", "MPSCompute"))

RAW_CALLS: dict[str, Callable[..., Any]] = {
    "nvmlInit": _initialise,
    "nvmlDeviceGetProcessUtilization": _samples,
    "nvmlDeviceGetRetiredPages": _retired_pages,
    "nvmlGpmMetrics": _gpm_metrics,
    **{name + end: partial(_processes, name + end) for name in _LISTS for end in ("_v2", "_v3")},
    **{f"{name}_v1": partial(_processes, name) for name in _LISTS},
}
"""The functions by the names that other modules give to `Nvml.call`."""

"""Reads PyTorch's CUDA caching allocator inside the program, by calls that neither initialise CUDA nor touch a device.

What a version of PyTorch (2.1 and newer) can do is told by which names and keys it has, never by its version number.
`torch` is the module as the program imported it. Results are dicts and lists whose keys are those of `model.attached`.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

from gputui.probe.allocator.blockmap import RawMap, private_pools
from gputui.probe.allocator.pool_use import is_routing_apart
from gputui.probe.allocator.pools import PoolWatch
from gputui.protocol.allocator_settings import WITH_OLDER_FIRST, large_page_bytes, parse_settings

CONFIGURATIONS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""The environment variables that PyTorch reads: the first that is set wins."""
NO_CACHING = "PYTORCH_NO_CUDA_MEMORY_CACHING"

AMOUNTS = (
    ("requested_bytes", "requested_bytes", "current"),
    ("allocated_bytes", "allocated_bytes", "current"),
    ("active_bytes", "active_bytes", "current"),
    ("reserved_bytes", "reserved_bytes", "current"),
    ("inactive_split_bytes", "inactive_split_bytes", "current"),
    ("peak_allocated_bytes", "allocated_bytes", "peak"),
    ("peak_active_bytes", "active_bytes", "peak"),
    ("peak_reserved_bytes", "reserved_bytes", "peak"),
    ("segments", "segment", "current"),
    ("blocks", "active", "current"),
)
COUNTERS = ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free")
CHANGES = (("allocation", "allocated"), ("allocation", "freed"), ("active", "freed"))


def is_readable(torch: ModuleType) -> bool:
    """Whether there is an allocator to read: CUDA is initialised, and in this very process (not before a fork)."""
    return bool(torch.cuda.is_initialized()) and hasattr(torch._C, "_cuda_memoryStats")


def is_history_enabled(torch: ModuleType) -> bool:
    """Whether memory history is on: each snapshot then costs much more, and is itself noted among the events."""
    ask = getattr(torch._C, "_cuda_isHistoryEnabled", None)  # crashes before CUDA is initialised
    if ask is None or not is_readable(torch) or torch._C._cuda_getAllocatorBackend() != "native":
        return False  # other allocators record no history, and raise if asked
    return bool(ask())


def read_statistics(torch: ModuleType) -> list[dict[str, int]]:
    """The counters of each device that the process sees (about 10 us each); [] if there is no allocator to read."""
    if not is_readable(torch):
        return []
    try:
        return [_statistics(torch, device) for device in range(torch.cuda.device_count())]
    except RuntimeError:  # a pluggable allocator keeps no statistics
        return []


def _statistics(torch: ModuleType, device: int) -> dict[str, int]:
    stats = torch._C._cuda_memoryStats(device)
    amounts = {name: stats.get(key, {}).get("all", {}).get(which, 0) for name, key, which in AMOUNTS}
    counters = {name: stats.get(name, 0) for name in COUNTERS}
    changes = sum(stats.get(key, {}).get("all", {}).get(which, 0) for key, which in CHANGES)
    generation = changes + counters["num_device_alloc"] + counters["num_device_free"]
    return {"device": device, **amounts, **counters, "generation": generation}


def changes(torch: ModuleType, device: int) -> tuple[int, int]:
    """How many blocks the program has requested on a device since it started, and how many it has freed."""
    counted = torch._C._cuda_memoryStats(device).get("allocation", {}).get("all", {})
    return counted.get("allocated", 0), counted.get("freed", 0)


def read_pinned_bytes(torch: ModuleType) -> int | None:
    """Bytes of page-locked host memory that PyTorch holds, in use or cached; None if PyTorch does not report it."""
    ask = getattr(torch._C, "_cuda_hostMemoryStats", None)
    if ask is None or not is_readable(torch):
        return None
    current: int | None = ask().get("allocated_bytes", {}).get("current")
    return current


def read_settings(torch: ModuleType) -> dict[str, Any] | None:
    """The settings that environment variables give; a map has those of its moment. None without an allocator."""
    if not is_readable(torch):
        return None
    configuration = next((os.environ[name] for name in CONFIGURATIONS if name in os.environ), "")
    values = parse_settings(configuration)
    if NO_CACHING in os.environ:
        values[NO_CACHING] = os.environ[NO_CACHING]
    megabytes = values.get("max_split_size_mb", "")
    return {
        "backend": torch._C._cuda_getAllocatorBackend(),
        "large_page_bytes": large_page_bytes(values),
        "max_split_bytes": int(megabytes) * 1024**2 if megabytes.isdigit() else None,
        "is_expandable": values.get("expandable_segments", "") == "True",
        "values": [[key, value] for key, value in values.items()],
    }


def take_map(torch: ModuleType, watch: PoolWatch, *, may_walk: bool = True, has_traces: bool = False) -> RawMap | None:
    """Every segment and block, and who uses which private pool; None unless the allocator is PyTorch's own.

    Call it where no other thread runs between the snapshot and the search for the users of pools. `may_walk`: see
    `PoolWatch.look`. `has_traces`: with the events of a recorded history, each of which costs time.
    """
    settings = read_settings(torch)
    if settings is None or settings["backend"] != "native":
        return None
    snapshot = _snapshot(torch, has_traces=has_traces)
    segments = snapshot["segments"]
    pools = private_pools(segments)
    use = watch.look(torch, has_pools=bool(pools), may_walk=may_walk)
    routed_devices = sorted(use.capturing if is_routing_apart(torch) else use.capturing | use.routing)
    holders, doubts = watch.failed_captures.look(torch, use, pools, {entry["device"] for entry in segments})
    settings_now = _settings_now(settings, snapshot.get("allocator_settings", {}))
    traces_of_devices = snapshot.get("device_traces", []) if has_traces else []
    return RawMap(settings_now, use, segments, routed_devices, holders, doubts, traces_of_devices)


def _snapshot(torch: ModuleType, *, has_traces: bool) -> dict[str, Any]:
    """PyTorch's snapshot; it has the events of a recorded history if `has_traces`, or if PyTorch cannot omit them.

    In some versions, the call that omits events releases references to its arguments that it does not own. Up to Python
    3.11 the reference counts of False and 0 would reach zero after some thousand calls, and the process would abort, so
    these references are added before the call.
    """
    if not is_history_enabled(torch):
        return torch._C._cuda_memorySnapshot(*_whole(torch))  # type: ignore[no-any-return]
    return _read_stacks(torch, lambda: _snapshot_with_stacks(torch, has_traces=has_traces))


def _snapshot_with_stacks(torch: ModuleType, *, has_traces: bool) -> dict[str, Any]:
    if has_traces or "include_traces" not in _snapshot_parameters(torch):
        return torch._C._cuda_memorySnapshot(*_whole(torch))  # type: ignore[no-any-return]
    if _releases_references(torch):
        for argument in (0, 0, False):
            _add_reference(argument)
    return torch._C._cuda_memorySnapshot((0, 0, False))  # type: ignore[no-any-return]


def traces(torch: ModuleType) -> list[list[Any]]:
    """The events of a recorded history for each device; the time grows with their number."""
    snapshot = _read_stacks(torch, lambda: torch._C._cuda_memorySnapshot(*_whole(torch)))
    return snapshot["device_traces"]  # type: ignore[no-any-return]


class _Inductor(ModuleType):
    """Stands in for `torch._inductor` while PyTorch reads stacks, if the program has not imported that module.

    PyTorch asks `torch._inductor.codecache` for the sources of compiled code, and so would import it, which holds the
    interpreter for a second. Any other attribute is that of the real module, which is imported then.
    """

    def __getattr__(self, name: str) -> object:
        if name == "codecache":
            raise AttributeError(name)
        return getattr(import_module(self.__name__), name)


def _read_stacks(torch: ModuleType, read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `read` returns; PyTorch does not import its compiler for it."""
    names, stand_in = vars(torch), _Inductor("torch._inductor")
    try:
        if stand_in.__name__ not in sys.modules:
            names.setdefault("_inductor", stand_in)
        return read()
    finally:
        if names.get("_inductor") is stand_in:
            del names["_inductor"]


def _whole(torch: ModuleType) -> tuple[None, ...]:
    """The arguments for a snapshot with all events: none in the oldest PyTorch."""
    return (None,) if _snapshot_parameters(torch) else ()


def _snapshot_parameters(torch: ModuleType) -> tuple[str, ...]:
    code = torch.cuda.memory_snapshot.__code__
    return tuple(code.co_varnames[: code.co_argcount])


@lru_cache(maxsize=None)
def _releases_references(torch: ModuleType) -> bool:
    """Whether the snapshot releases references to its arguments, tried with ints that nobody else uses."""
    if sys.version_info >= (3, 12):  # False and 0 are immortal
        return False
    numbers = _Number(0), _Number(0)
    for argument in (*numbers, False):
        _add_reference(argument)  # one to spare
    before = sys.getrefcount(numbers[0])
    torch._C._cuda_memorySnapshot((*numbers, False))
    return sys.getrefcount(numbers[0]) < before


class _Number(int):
    """An int of our own: Python shares 0 among all code."""


def _add_reference(value: object) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def _settings_now(settings: dict[str, Any], snapshot_settings: dict[str, Any]) -> dict[str, Any]:
    """The settings, with those of the snapshot in place of older ones: it has changes made at run time."""
    at_run_time = parse_settings(snapshot_settings.get("PYTORCH_CUDA_ALLOC_CONF", ""))
    values = {**dict(settings["values"]), **at_run_time}
    limit = snapshot_settings.get("max_split_size", -1)
    divisions = snapshot_settings.get("roundup_power2_divisions", {})
    return {
        **settings,
        "large_page_bytes": large_page_bytes(values),
        "max_split_bytes": limit if limit > 0 else None,
        "is_expandable": bool(snapshot_settings.get("expandable_segments", settings["is_expandable"])),
        "values": [[key, value] for key, value in values.items()],
        "roundup_divisions": [divisions[key] for key in sorted(divisions, key=int)],
        "prefers_older": WITH_OLDER_FIRST in snapshot_settings,
    }

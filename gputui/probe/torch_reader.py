"""Reads PyTorch: statistics, block map and inventory, each with a sentence among the problems if it cannot be read.

Import this only after the program has imported PyTorch, and with it `threading`: that module takes the thread which
first imports it for the main thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import thread_time, time
from types import ModuleType
from typing import Any

from gputui.probe import allocator, blockmap, inventory, mainthread, process, stacks
from gputui.probe.pools import PoolWatch

THE_MAP = "The allocator's map"
FREEING = (
    "The program was freeing an object at that moment, in which tensors cannot be read safely: look again to see them."
)


class TorchReader:
    """Reads looks, and keeps what one look has found for the next."""

    def __init__(self) -> None:
        self.pools = PoolWatch()
        self.map_ms = 0.0
        """The processor time that the map of the last look took in the main thread."""

    def read(self, torch: ModuleType, method: str, look: dict[str, Any], *, may_walk: bool) -> None:
        """Fill in the fields of `model.target.Look`; the map stays raw until `describe` is called.

        Call it in the main thread. `method` is the inventory's: "walk", "scan" or "" (none). `may_walk`: see
        `PoolWatch.look`.
        """
        problems = look["problems"]
        look["statistics"] = device_statistics(torch, problems)
        began = thread_time()
        if process.has_cuda(torch):
            look["map"] = attempt(THE_MAP, problems, self._take_map, torch, may_walk)
            look["settings"] = _copied(look["map"].settings) if look["map"] else _settings(torch, problems)
        self.map_ms = (thread_time() - began) * 1000
        if method and stacks.is_freeing():
            problems.append(FREEING)
        elif method:
            look["inventory"] = attempt("Tensors", problems, inventory.take_inventory, torch, method)
        if look["inventory"] is not None:
            after = device_statistics(torch, problems)
            look["inventory"]["is_of_one_moment"] = _is_one_moment(look["statistics"], after)

    def describe(self, look: dict[str, Any]) -> None:
        """Turn the raw map into the fields of `AllocatorMap`; no thread of the program waits for this."""
        if look["map"] is not None:
            look["map"] = attempt(THE_MAP, look["problems"], blockmap.describe_map, look["map"])

    def _take_map(self, torch: ModuleType, may_walk: bool) -> allocator.RawMap | None:  # noqa: FBT001 (see `attempt`)
        return allocator.take_map(torch, self.pools, may_walk=may_walk)


torch_reader = TorchReader()
"""The only one of this process, shared by all viewers."""


def statistics_fields(torch: ModuleType, problems: list[str]) -> dict[str, Any]:
    """The fields of `model.target.Statistics` that PyTorch is asked for."""
    devices, pinned_bytes = device_statistics(torch, problems), None
    if process.has_cuda(torch):
        pinned_bytes = attempt("Pinned memory", problems, allocator.read_pinned_bytes, torch)
    return {"time": time(), "devices": devices, "pinned_bytes": pinned_bytes, "problems": problems}


def device_statistics(torch: ModuleType, problems: list[str]) -> list[dict[str, Any]]:
    """The fields of `model.allocator.AllocatorStatistics` for each device; [] before CUDA is initialised."""
    if not process.has_cuda(torch):
        return []
    return attempt("The allocator's statistics", problems, allocator.read_statistics, torch) or []


def stamp_of(statistics: list[dict[str, Any]]) -> object:
    """A value that changes whenever memory is allocated or freed; None without counters, when any look may be new."""
    return tuple(device["generation"] for device in statistics) or None


def attempt(what: str, problems: list[str], function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401
    """What `function` returns; None with a sentence added to the problems if it fails.

    Exceptions of the program's own signal handlers are passed on.
    """
    try:
        return function(*arguments)
    except Exception as error:  # an error of PyTorch's internals must not end somebody's training job
        if mainthread.is_of_the_program(error):
            raise
        problems.append(f"{what} could not be read: {type(error).__name__}: {error}"[:1000])
        return None


def _settings(torch: ModuleType, problems: list[str]) -> Any:  # noqa: ANN401
    return attempt("The allocator's settings", problems, allocator.read_settings, torch)


def _copied(settings: dict[str, Any]) -> dict[str, Any]:
    """A copy with lists of its own, as encoding a message empties its lists."""
    return {name: list(value) if isinstance(value, list) else value for name, value in settings.items()}


def _is_one_moment(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> bool:
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    return has_gil and stamp_of(before) == stamp_of(after)

"""Reads the allocator's counters in the program's main thread, if that comes back to Python soon.

Reading them, PyTorch waits for the allocator's lock and keeps the interpreter's. While PyTorch allocates from the
driver, it holds the allocator's lock and has released the interpreter's, so a read in another thread would stop all
Python threads until the driver is done. The main thread makes nearly all allocations: while it runs Python, it is in
none. The counts of collectives need no lock, and are added in the probe's thread.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from gputui.probe.guards.originals import perf_counter, wall_clock
from gputui.probe.main_thread import process
from gputui.probe.main_thread.activity import BUSY_S
from gputui.probe.main_thread.calls import MainThread, MainThreadCall


class CounterReader:
    """Reads once at a time, in the main thread or, if that does not come back to Python, in the probe's own."""

    def __init__(self, main_thread: MainThread) -> None:
        self._call: MainThreadCall[dict[str, Any]] = MainThreadCall(main_thread)
        self._began_at = 0.0
        self.newest: list[dict[str, Any]] = []
        """The counters of each device, as read last."""
        self.newest_at = float("-inf")
        """When (`perf_counter`) the read of `newest` was asked for: the counters are not older."""
        self.fetched_at = float("-inf")
        """When (`perf_counter`) `finished` returned `newest`."""

    @property
    def deadline(self) -> float | None:
        """When (`perf_counter`) to ask `finished` again at the latest, None if no read is under way."""
        return self._call.deadline

    def begin(self) -> None:
        """Ask for the counters, unless a read is under way."""
        if self._call.is_under_way:
            return
        torch = _torch_with_reader()
        self._began_at = perf_counter()
        if not process.has_cuda(torch):
            self._call.settle(read(torch))  # there is no lock to wait for
            return
        self._call.begin(lambda: read(torch), BUSY_S, self._failed, in_backward_s=0.0)

    def finished(self) -> dict[str, Any] | None:
        """The counters as `read` returns them, once; None while the read is under way."""
        statistics = self._call.finished(lambda: read(_torch_with_reader()))
        if statistics is not None:
            statistics.update(_collectives(statistics["problems"]))
            self.newest, self.newest_at, self.fetched_at = statistics["devices"], self._began_at, perf_counter()
        return statistics

    def _failed(self, failure: str) -> dict[str, Any]:
        return {**_no_statistics(), "devices": self.newest, "problems": [failure] if failure else []}

    def leave(self) -> None:
        """Drop the read under way and forget the counters: the last viewer has gone."""
        self._call.leave()
        self.newest, self.newest_at, self.fetched_at = [], float("-inf"), float("-inf")


def read(torch: ModuleType | None) -> dict[str, Any]:
    """The fields of `model.attached.target.Statistics` that PyTorch knows, read in the calling thread."""
    if torch is None:
        return _no_statistics()
    from gputui.probe.looks.torch_reader import statistics_fields

    return statistics_fields(torch, [])


def _no_statistics() -> dict[str, Any]:
    return {"time": wall_clock(), "devices": [], "pinned_bytes": None, "problems": []}


def _collectives(problems: list[str]) -> dict[str, Any]:
    if "torch.distributed.distributed_c10d" not in sys.modules:
        return {}
    from gputui.probe.looks import process_groups
    from gputui.probe.looks.torch_reader import attempt

    return attempt("Process groups", problems, process_groups.fields) or {}  # one may be made or destroyed just now


def _torch_with_reader() -> ModuleType | None:
    """PyTorch, if the program has it; imports `torch_reader` then, so that the main thread need not wait for that."""
    torch = process.loaded_torch()
    if torch is not None:
        from gputui.probe.looks import torch_reader  # noqa: F401
    return torch

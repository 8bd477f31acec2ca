"""The allocator's counters, read in the program's main thread if that comes back to Python soon.

PyTorch waits for the allocator's lock without releasing the interpreter's. A device allocation holds the allocator's
lock and has released the interpreter's, so reading counters meanwhile in another thread would stop all Python threads
until the driver is done. The main thread makes nearly all allocations: between two of its instructions it is in none.
What process groups count has no lock, and is added here.
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
    """One read at a time, in the main thread or, if that does not come back to Python, in the probe's own."""

    def __init__(self, main_thread: MainThread) -> None:
        self._call: MainThreadCall[dict[str, Any]] = MainThreadCall(main_thread)
        self._began_at = 0.0
        self.newest: list[dict[str, Any]] = []
        """The counters of each device at the last read."""
        self.newest_at = float("-inf")
        """When (`perf_counter`) that read was asked for: `newest` is not older."""
        self.fetched_at = float("-inf")
        """When (`perf_counter`) that read was fetched by `finished`."""

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
        """The last viewer has gone: forget what was read for it."""
        self._call.leave()
        self.newest, self.newest_at, self.fetched_at = [], float("-inf"), float("-inf")


def read(torch: ModuleType | None) -> dict[str, Any]:
    """The fields of `model.attached.target.Statistics` that PyTorch is asked for, read now in this thread."""
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
    """PyTorch, if the program has it; imports its reader too, so that the main thread need not wait for that."""
    torch = process.loaded_torch()
    if torch is not None:
        from gputui.probe.looks import torch_reader  # noqa: F401
    return torch

"""The allocator's counters, read in the program's main thread wherever that comes to it soon.

PyTorch waits for the allocator's lock with the interpreter's in its hand. A device allocation holds the one and has
given up the other, so who reads counters meanwhile stops every thread of Python until the driver is done. The main
thread asks for nearly all memory: between two of its instructions it is in no allocation.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter, time
from types import ModuleType
from typing import Any

from gputui.probe import process
from gputui.probe.mainthread_call import MainThreadCall

WAIT_S = 0.5
"""So long the main thread is waited for, once in each of its absences: most device allocations take less."""


class CounterReader:
    """Reads them, one read at a time, in the main thread or, where that does not come, in the probe's own."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._call: MainThreadCall[dict[str, Any]] = MainThreadCall(wake)
        self._began_at = 0.0
        self.newest: list[dict[str, Any]] = []
        """Of each device, as they were read last."""
        self.newest_at = float("-inf")
        """From when (`perf_counter`) on `newest` may be."""

    @property
    def deadline(self) -> float | None:
        """When (`perf_counter`) to stop waiting for the main thread, None where nothing is being read."""
        return self._call.deadline

    def begin(self) -> None:
        """Ask for them, unless that was done already; the wake function is called once they are there."""
        if self.deadline is not None:
            return
        torch = _torch()
        self._began_at = perf_counter()
        if not process.has_cuda(torch):
            self._call.settle(read(torch))  # there is no lock to wait for
            return
        wait_s = 0.0 if self._call.is_main_thread_absent else WAIT_S
        self._call.begin(lambda: read(torch), wait_s, _nothing() | {"devices": self.newest})

    def finished(self) -> dict[str, Any] | None:
        """The fields of `model.target.Statistics` that are read, once they were."""
        taken = self._call.finished(lambda: read(_torch()))
        if taken is not None:
            self.newest, self.newest_at = taken["devices"], self._began_at
        return taken

    def leave(self) -> None:
        """Nobody looks any more."""
        self._call.leave()
        self.newest, self.newest_at = [], float("-inf")


def read(torch: ModuleType | None) -> dict[str, Any]:
    """The fields of `model.target.Statistics` that are read, at once and in this thread."""
    if torch is None:
        return _nothing()
    from gputui.probe.torch_reader import statistics_fields

    return statistics_fields(torch, [])


def _nothing() -> dict[str, Any]:
    return {"time": time(), "devices": [], "pinned_bytes": None, "problems": []}


def _torch() -> ModuleType | None:
    """PyTorch, once it is there; then with its reader, whose import is not to be waited for in the main thread."""
    torch = process.loaded_torch()
    if torch is not None:
        from gputui.probe import torch_reader  # noqa: F401
    return torch

"""The allocator's counters, read in the program's main thread wherever that comes to it soon.

PyTorch waits for the allocator's lock with the interpreter's in its hand. A device allocation holds the one and has
given up the other, so who reads counters meanwhile stops every thread of Python until the driver is done. The main
thread asks for nearly all memory: between two of its instructions it is in no allocation.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter, time
from types import FunctionType, ModuleType
from typing import Any, cast

from gputui.probe import compiler, mainthread, program

WAIT_S = 0.5
"""So long the main thread is waited for, once in each of its absences: most device allocations take less."""


class Counters:
    """Reads them, one read at a time, in the main thread or, where that does not come, in the probe's own."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._main = mainthread.PendingCall()
        self._taken: dict[str, Any] | None = None
        self._began_at = 0.0
        self._number = 0
        """Of the read under way: what an earlier one brings that nobody waits for any more is dropped."""
        self.deadline: float | None = None
        """When (`perf_counter`) to stop waiting for the main thread, None where nothing is being read."""
        self.newest: list[dict[str, Any]] = []
        """Of each device, as they were read last."""
        self.newest_at = float("-inf")
        """From when (`perf_counter`) on `newest` may be."""

    def begin(self) -> None:
        """Ask for them, unless that was done already; the wake function is called once they are there."""
        if self.deadline is not None:
            return
        torch = _torch()
        self._taken, self._began_at = None, perf_counter()
        if not program.has_cuda(torch):
            self._taken, self.deadline = read(torch), self._began_at  # there is no lock to wait for
            return
        self.deadline = self._began_at + (0.0 if self._main.is_queued else WAIT_S)
        compiler.keep_from_compiling(cast("FunctionType", mainthread.PendingCall.__bool__))
        self._number = number = self._number + 1
        self._main.request(lambda: self._read_in_the_main_thread(torch, number))

    def finished(self) -> dict[str, Any] | None:
        """The fields of `model.target.Statistics` that are read, once they were."""
        if self.deadline is None:
            return None
        if self._taken is None and perf_counter() >= self.deadline and self._main.withdraw():
            self._taken = read(_torch())
        taken = self._taken
        if taken is not None:
            self._taken = self.deadline = None
            self.newest, self.newest_at = taken["devices"], self._began_at
        return taken

    def leave(self) -> None:
        """Nobody looks any more."""
        self._main.withdraw()
        self._number += 1
        self._taken = self.deadline = None
        self.newest, self.newest_at = [], float("-inf")

    def _read_in_the_main_thread(self, torch: ModuleType | None, number: int) -> None:
        taken = _nothing() | {"devices": self.newest}  # what there is, should one of the program's signals end this
        try:
            taken = read(torch)
        finally:
            if number == self._number:
                self._taken = taken
            self._wake()


def read(torch: ModuleType | None) -> dict[str, Any]:
    """The fields of `model.target.Statistics` that are read, at once and in this thread."""
    if torch is None:
        return _nothing()
    from gputui.probe.reading import read_statistics

    return read_statistics(torch, [])


def _nothing() -> dict[str, Any]:
    return {"time": time(), "devices": [], "pinned_bytes": None, "problems": []}


def _torch() -> ModuleType | None:
    """PyTorch, once it is there; then with its reader, whose import is not to be waited for in the main thread."""
    torch = program.loaded_torch()
    if torch is not None:
        from gputui.probe import reading  # noqa: F401
    return torch

"""A look: statistics, block map and inventory of one moment, taken in the main thread, with what it cost."""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import perf_counter, thread_time, time
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gputui.probe import process
from gputui.probe.budget import RECORDS, Budget
from gputui.probe.mainthread_call import MainThreadCall

if TYPE_CHECKING:
    from gputui.probe.counters import CounterReader
    from gputui.probe.torch_reader import TorchReader

SHARE_OF_TIME = 0.01
"""What looks that nobody pressed a key for may take of the program's time."""
MIN_INTERVAL_S = 1.0
"""The least time between two of them."""
_INTERRUPTED = "A signal of the program arrived in the middle of the look, and went first: look again."
_NO_TORCH = "The program has not imported PyTorch: there is nothing to look at."


class LookRunner:
    """Takes one look at a time; all of it but the reading itself runs in the probe's thread."""

    def __init__(self, wake: Callable[[], object], counters: CounterReader) -> None:
        self._call: MainThreadCall[dict[str, Any]] = MainThreadCall(wake)
        self._counters = counters
        self._reader: TorchReader | None = None
        self._wait_s = 0.0
        self._budget = Budget()
        self._is_urgent = True
        self.how: str | None = None
        """The inventory of the look under way, None where there is none."""
        self.free_at = 0.0
        """When (`perf_counter`) the next look may be taken that nobody asked for."""

    @property
    def deadline(self) -> float | None:
        """When (`perf_counter`) to stop waiting for the main thread, None where no look is under way."""
        return self._call.deadline

    def begin(self, how: str, wait_s: float, *, is_urgent: bool) -> None:
        """Ask the main thread for a look; the wake function is called once it is there.

        One that is not urgent is what `way` says there is left of it.
        """
        torch = self._torch()
        way = how if is_urgent else self.way(how)[0]
        self.how, self._wait_s, self._is_urgent = how, wait_s, is_urgent
        self._call.begin(lambda: self._take(torch, way or "", []), wait_s, _empty([_INTERRUPTED]))

    def finished(self) -> dict[str, Any] | None:
        """The look, once it was taken or the wait for it is over; afterwards another may begin."""
        taken = self._call.finished(lambda: self._take(self._torch(), "", [self._why_not()]))
        if taken is not None:
            self._learn(taken)
            self._describe(taken)
            taken["how"], taken["stamp"], taken["is_urgent"] = (
                self.how,
                self.stamp(taken["statistics"]),
                self._is_urgent,
            )
            self.how = None
        return taken

    def leave(self) -> None:
        """Nobody looks any more."""
        self._call.leave()
        self.how = None

    def way(self, how: str) -> tuple[str | None, str]:
        """What may be taken now of a look by `how` that nobody asked for (None: nothing), and why not all."""
        torch = self._torch()
        if torch is None:
            return how, ""
        from gputui.probe.memory_history import memory_history

        if memory_history.recorder(torch) == "program":
            return None, RECORDS
        way, why_less = self._budget.way(how, _blocks(self._counters.newest))
        return (None if way == "" and not process.has_cuda(torch) else way), why_less  # only CUDA's has a map

    def account(self, cost_s: float) -> None:
        """Note what a look cost, so that looks nobody asked for stay within their share of the time."""
        self.free_at = perf_counter() + max(MIN_INTERVAL_S, cost_s / SHARE_OF_TIME)

    def told_with(self, counters: dict[str, Any]) -> dict[str, Any]:
        """The fields of `model.target.Statistics`: counters, and what looks nobody asks for are now."""
        torch = self._torch()
        if torch is None:
            return counters
        from gputui.probe.memory_history import memory_history

        way, why_less = self.way("walk")
        problems = [*([why_less] if why_less else []), *counters["problems"]]
        return counters | {"problems": problems, "automatic": way, "history": memory_history.recorder(torch)}

    def stamp(self, statistics: list[dict[str, Any]] | None = None) -> object:
        """What differs once memory came or went, of these statistics or of the newest counters."""
        if self._torch() is None:
            return None
        from gputui.probe.torch_reader import stamp_of

        return stamp_of(self._counters.newest if statistics is None else statistics)

    def _torch(self) -> ModuleType | None:
        """PyTorch, once it is there; then with a reader, whose imports are not to be waited for in the main thread."""
        torch = process.loaded_torch()
        if torch is not None and self._reader is None:
            from gputui.probe.torch_reader import torch_reader

            self._reader = torch_reader
        return torch

    def _learn(self, taken: dict[str, Any]) -> None:
        if self._reader is None or (taken["map"] is None and taken["inventory"] is None):
            return  # nothing was read
        how = taken["inventory"]["how"] if taken["inventory"] else ""
        blocks, walked_ms = _blocks(taken["statistics"]), self._reader.pools.walked_ms  # a walk not made every time
        self._budget.note(how, blocks, taken["cost"]["probe_cpu_ms"] - walked_ms)
        if how and taken["map"] is not None:
            self._budget.note("", blocks, self._reader.map_ms - walked_ms)

    def _describe(self, taken: dict[str, Any]) -> None:
        """Make a map of what was taken of it."""
        began_cpu = thread_time()
        if self._reader is not None:
            self._reader.describe(taken)
        taken["cost"]["probe_cpu_ms"] += (thread_time() - began_cpu) * 1000

    def _take(self, torch: ModuleType | None, how: str, problems: list[str]) -> dict[str, Any]:
        """A look, with the inventory where `how` says how; collections of garbage wait until it is over."""
        began, began_cpu = perf_counter(), thread_time()
        look = _empty(problems)
        collects = gc.isenabled()
        try:
            gc.disable()
            if torch is None or self._reader is None:
                problems.append(_NO_TORCH)
            else:
                self._reader.read(torch, how, look, may_walk=self._is_urgent)
        finally:
            if collects:
                gc.enable()
        look["cost"]["pause_ms"] = (perf_counter() - began) * 1000
        look["cost"]["probe_cpu_ms"] = (thread_time() - began_cpu) * 1000
        return look

    def _why_not(self) -> str:
        place = process.main_thread_location()
        return (
            f"The program's main thread did not come back to Python within {self._wait_s:g} s"
            f"{f' (it is at {place})' if place else ''}: tensors could not be looked at, and the map is of a moment "
            "in the middle of what it does."
        )


def _blocks(statistics: list[dict[str, Any]]) -> int:
    return sum(each["blocks"] for each in statistics)


def _empty(problems: list[str]) -> dict[str, Any]:
    return {
        "type": "look",
        "time": time(),
        "statistics": [],
        "settings": None,
        "map": None,
        "inventory": None,
        "problems": problems,
        "cost": {"pause_ms": 0.0, "probe_cpu_ms": 0.0},
    }

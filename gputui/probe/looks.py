"""A look: statistics, block map and inventory of one moment, taken in the main thread, with what it cost."""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import perf_counter, thread_time, time
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gputui.probe import process
from gputui.probe.budget import RECORDS, Budget, on_request
from gputui.probe.mainthread_call import MainThreadCall
from gputui.probe.meter import Meter

if TYPE_CHECKING:
    from gputui.probe.counters import CounterReader
    from gputui.probe.torch_reader import TorchReader

SHARE_OF_TIME = 0.01
"""How much of the program's time automatic looks may take."""
PAUSE_S = 0.1
"""The longest stop of the main thread in a look on request."""
MIN_INTERVAL_S = 1.0
"""The shortest time between two automatic looks."""
_INTERRUPTED = "A signal handler of the program interrupted the look: ask for another one."
_NO_TORCH = "The program has not imported PyTorch yet: there is nothing to look at."


class LookRunner:
    """Takes one look at a time. Everything except the reading itself happens in the probe's thread.

    `method` is how the inventory is taken: "walk", "scan" or "" (none), see `budget`.
    """

    def __init__(self, wake: Callable[[], object], counters: CounterReader) -> None:
        self._call: MainThreadCall[dict[str, Any]] = MainThreadCall(wake)
        self._counters = counters
        self._reader: TorchReader | None = None
        self._wait_s = 0.0
        self._budget = Budget()
        self._is_urgent = True
        self.method: str | None = None
        """The inventory method of the look under way, None if there is no such look."""
        self.next_automatic_at = 0.0
        """When (`perf_counter`) the next automatic look may be taken."""

    @property
    def deadline(self) -> float | None:
        """When (`perf_counter`) to stop waiting for the main thread, None if no look is under way."""
        return self._call.deadline

    def begin(self, method: str, wait_s: float, *, is_urgent: bool) -> None:
        """Have the main thread take a look; the wake function is called when it is done.

        A look that is not urgent is reduced to what `affordable` allows.
        """
        torch = self._torch_with_reader()
        affordable = method if is_urgent else self.affordable(method)[0]
        self.method, self._wait_s, self._is_urgent = method, wait_s, is_urgent
        self._call.begin(lambda: self._take(torch, affordable or "", []), wait_s, _empty([_INTERRUPTED]))

    def finished(self) -> dict[str, Any] | None:
        """The look once it is taken or the wait for it is over, after which another may begin.

        Beside the fields of `model.target.Look` it has `method` and `is_urgent` as asked for, and its `stamp`.
        """
        look = self._call.finished(
            lambda: self._take(self._torch_with_reader(), "", [self._main_thread_did_not_come()])
        )
        if look is not None and look.pop("is_dropped", False):
            self.method = None  # the request waits on: an empty look would take the viewer's map away
            return None
        if look is not None:
            self._learn(look)
            self._describe_map(look)
            look["method"], look["stamp"], look["is_urgent"] = (
                self.method,
                self.stamp(look["statistics"]),
                self._is_urgent,
            )
            self.method = None
        return look

    def leave(self) -> None:
        """The last viewer has gone: drop the look under way."""
        self._call.leave()
        self.method = None

    def affordable(self, method: str) -> tuple[str | None, str]:
        """The most that an automatic look by `method` may take now (None: nothing), and a sentence if that is less."""
        torch = self._torch_with_reader()
        if torch is None:
            return method, ""
        if _program_records(torch):
            return None, RECORDS
        affordable, why_less = self._budget.affordable(method, _blocks(self._counters.newest))
        has_map = process.has_cuda(torch)  # without one, a look that takes no inventory would be empty
        return (None if affordable == "" and not has_map else affordable), why_less

    def account(self, cost_s: float) -> None:
        """Put off the next automatic look, so that what this one cost stays within `SHARE_OF_TIME`."""
        self.next_automatic_at = perf_counter() + max(MIN_INTERVAL_S, cost_s / SHARE_OF_TIME)

    def with_automatic(self, statistics: dict[str, Any]) -> dict[str, Any]:
        """All fields of `model.target.Statistics`: counters, what automatic looks are now, and who records history."""
        torch = self._torch_with_reader()
        if torch is None:
            return statistics
        from gputui.probe.memory_history import memory_history

        automatic, why_less = self.affordable("walk")
        problems = [*([on_request(why_less)] if why_less else []), *statistics["problems"]]
        return statistics | {
            "problems": problems,
            "automatic": automatic,
            "history": memory_history.recorder(torch),
        }

    def stamp(self, statistics: list[dict[str, Any]] | None = None) -> object:
        """A value that changes whenever memory is allocated or freed, of these statistics or else of the newest."""
        if self._torch_with_reader() is None:
            return None
        from gputui.probe.torch_reader import stamp_of

        return stamp_of(self._counters.newest if statistics is None else statistics)

    def _torch_with_reader(self) -> ModuleType | None:
        """PyTorch, if the program has it; imports its reader too, so that the main thread need not wait for that."""
        torch = process.loaded_torch()
        if torch is not None and self._reader is None:
            from gputui.probe.torch_reader import torch_reader

            self._reader = torch_reader
        return torch

    def _learn(self, look: dict[str, Any]) -> None:
        if self._reader is None or (look["map"] is None and look["inventory"] is None):
            return  # nothing was read
        method = look["inventory"]["how"] if look["inventory"] else ""
        blocks = _blocks(look["statistics"])
        walked_ms = self._reader.pools.walked_ms  # left out: most looks make no such walk
        self._budget.learn(method, blocks, look["cost"]["probe_cpu_ms"] - walked_ms)
        if method and look["map"] is not None:
            self._budget.learn("", blocks, self._reader.map_ms - walked_ms)

    def _describe_map(self, look: dict[str, Any]) -> None:
        began_cpu = thread_time()
        if self._reader is not None:
            self._reader.describe(look)
        look["cost"]["probe_cpu_ms"] += (thread_time() - began_cpu) * 1000

    def _take(self, torch: ModuleType | None, method: str, problems: list[str]) -> dict[str, Any]:
        """Take a look in the calling thread, with garbage collection held off meanwhile."""
        began, began_cpu = perf_counter(), thread_time()
        look = _empty(problems)
        was_collecting = gc.isenabled()
        try:
            gc.disable()
            if torch is None or self._reader is None:
                problems.append(_NO_TORCH)
            elif not self._is_urgent and _program_records(torch):  # it began after this look was asked for
                look["is_dropped"] = True
            else:
                self._reader.read(torch, method, look, Meter(PAUSE_S), may_walk=self._is_urgent)
        finally:
            if was_collecting:
                gc.enable()
        look["cost"]["pause_ms"] = (perf_counter() - began) * 1000
        look["cost"]["probe_cpu_ms"] = (thread_time() - began_cpu) * 1000
        return look

    def _main_thread_did_not_come(self) -> str:
        location = process.main_thread_location()
        return (
            f"The program's main thread did not come back to Python within {self._wait_s:g} s"
            f"{f' (it is at {location})' if location else ''}: tensors could not be looked at, and the map may show the"
            " middle of an operation."
        )


def _program_records(torch: ModuleType) -> bool:
    from gputui.probe.memory_history import memory_history

    return memory_history.recorder(torch) == "program"


def _blocks(statistics: list[dict[str, Any]]) -> int:
    return sum(device["blocks"] for device in statistics)


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

"""Actions: what a viewer may ask the probe to do in the program, such as `torch.cuda.empty_cache()`.

An action runs only when a viewer asks for it, and only in the program's main thread, as one pending call. An exception
of the action becomes a sentence in the answer; one raised meanwhile by the program's own signal handlers is passed on.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from gputui import environment
from gputui.probe.guards.boundary import is_of_the_program
from gputui.probe.guards.originals import perf_counter, wall_clock
from gputui.probe.main_thread import process
from gputui.probe.main_thread.calls import MainThread, MainThreadCall

if TYPE_CHECKING:
    from gputui.probe.allocator.blockmap import RawMap

Result = TypeVar("Result")
RECORD_STEP = "record_step"
"""The action that takes seconds: see `gputui.probe.viewers.step`."""
FORBIDDEN = f"Actions are forbidden in this program: {environment.PROBE_ACTS} is 0 in its environment."
BUSY = "Another action is under way: try again when it has ended."
_INTERRUPTED = "A signal handler of the program interrupted the action: it may have been done in part."
_NO_TORCH = "The program has not imported PyTorch yet."
_NO_CUDA = "The program has not initialised CUDA yet, so there is nothing for this action to do."
_KEPT = "The program was started with --memory-history, so its history stays on."
_IN_A_COLLECTION = "A garbage collection was already running, and Python starts none inside another: try again."


class ActionRequest(NamedTuple):
    """`name` is one of `ACTIONS`, or `RECORD_STEP`; `wait_s` is how long to wait for the main thread."""

    name: str
    wait_s: float


def forbidden() -> str:
    """Why no actions are accepted, "" if they are."""
    return FORBIDDEN if os.environ.get(environment.PROBE_ACTS) == "0" else ""


def allowed_actions() -> list[str]:
    """The names of the actions that viewers may ask for; none if the program's environment forbids them."""
    return [] if forbidden() else [*ACTIONS, RECORD_STEP]


class ActionRunner:
    """Runs one action at a time. Everything except the action itself happens in the probe's thread."""

    def __init__(self, main_thread: MainThread) -> None:
        self._call: MainThreadCall[dict[str, Any]] = MainThreadCall(main_thread)
        self._wait_s = 0.0
        self._viewers_left = False
        self.name = ""
        """The action under way, "" if none is."""

    @property
    def deadline(self) -> float | None:
        """When (`perf_counter`) to ask `finished` again at the latest, None if no action is under way."""
        return self._call.deadline

    def begin(self, request: ActionRequest) -> None:
        """Have the main thread run an action."""
        torch = process.loaded_torch()
        if torch is not None:  # imported here, so that the main thread does not have to wait for imports
            from gputui.probe.allocator import memory_history  # noqa: F401
            from gputui.probe.looks import torch_reader  # noqa: F401
        self.name, self._wait_s, self._viewers_left = request.name, request.wait_s, False
        reason = forbidden()
        if reason:
            self._call.settle(nothing_done(request.name, reason))
            return
        name = request.name
        self._call.begin(
            lambda: self._run_in_main_thread(torch, name),
            request.wait_s,
            lambda failure: nothing_done(name, failure or _INTERRUPTED),
        )

    def finished(self) -> dict[str, Any] | None:
        """The fields of `model.attached.target.ActionResult` once the action is over, after which another may begin."""
        result = self._call.finished(lambda: main_thread_did_not_come(self.name, self._wait_s, "nothing was done"))
        if result is not None:
            self.name = ""
            raw_map = result.pop("raw_map", None)
            if raw_map is not None:
                from gputui.probe.allocator.blockmap import describe_map

                result["map"] = describe_map(raw_map)
        return result

    def leave(self) -> None:
        """The last viewer has gone: drop an action that has not begun, and end the history that viewers switched on."""
        self._viewers_left, self.name = True, ""
        self._call.leave()
        _end_own_history()

    def _run_in_main_thread(self, torch: ModuleType | None, name: str) -> dict[str, Any]:
        try:
            return _run_action(torch, name)
        finally:
            if self._viewers_left:
                _end_own_history()


def _end_own_history() -> None:
    module = sys.modules.get("gputui.probe.allocator.memory_history")  # not imported: history was never switched on
    if module is not None:
        module.memory_history.viewers_have_left()


def _run_action(torch: ModuleType | None, name: str) -> dict[str, Any]:
    result = nothing_done(name, "")
    action = ACTIONS[name]

    def run() -> str:
        if torch is None and action.needs_cuda:
            return _NO_TORCH
        if action.needs_cuda and not process.has_cuda(torch):
            return _NO_CUDA
        return action.why_not(torch, result) or _perform(torch, action, result)

    result["reason"] = or_failure(run, lambda failure: failure)
    return result


def or_failure(function: Callable[[], Result], failed: Callable[[str], Result]) -> Result:
    """What `function` returns or, if it fails, what `failed` makes of a sentence: no failure may end a training job."""
    try:
        return function()
    except Exception as error:
        if is_of_the_program(error):
            raise
        return failed(f"It failed: {type(error).__name__}: {error}"[:1000])


def main_thread_did_not_come(name: str, wait_s: float, outcome: str) -> dict[str, Any]:
    """The answer for an action that the main thread has not begun; `outcome` is the end of its sentence."""
    location = process.main_thread_location()
    place = f" (it is at {location})" if location else ""
    reason = f"The program's main thread did not come back to Python within {wait_s:g} s{place}: {outcome}."
    return nothing_done(name, reason)


def _perform(torch: ModuleType | None, action: Action, result: dict[str, Any]) -> str:
    counters_before = counters(torch)
    began = perf_counter()
    try:
        return action.perform(torch, result)
    finally:
        result["took_s"] = perf_counter() - began
        result["devices"] = [
            {
                "device": before["device"],
                "reserved_before_bytes": before["reserved_bytes"],
                "reserved_after_bytes": after["reserved_bytes"],
                "allocated_before_bytes": before["allocated_bytes"],
                "allocated_after_bytes": after["allocated_bytes"],
            }
            for before, after in zip(counters_before, counters(torch))
        ]


def counters(torch: ModuleType | None) -> list[dict[str, Any]]:
    """The fields of `model.attached.allocator.AllocatorStatistics` for each device, read now in this thread."""
    if torch is None:
        return []
    from gputui.probe.looks.torch_reader import device_statistics

    return device_statistics(torch, [])


def nothing_done(name: str, reason: str) -> dict[str, Any]:
    """The answer for an action that was not done, and the fields to fill in for one that was."""
    return {
        "type": "action_result",
        "time": wall_clock(),
        "name": name,
        "took_s": 0.0,
        "devices": [],
        "map": None,
        "collected": None,
        "reason": reason,
    }


def _collect(_torch: ModuleType | None, result: dict[str, Any]) -> str:
    """Run a full collection. Inside a running one, Python starts none and calls none of `gc.callbacks`."""
    phases: dict[str, dict[str, int]] = {}
    note = phases.__setitem__  # not a Python function, in which an exception of a signal handler would be lost
    gc.callbacks.append(note)
    try:
        result["collected"] = gc.collect()
    finally:
        gc.callbacks.remove(note)
    return "" if "start" in phases else _IN_A_COLLECTION


def _why_not_emptied(torch: ModuleType, result: dict[str, Any]) -> str:
    """Why the cache must not be emptied now; adds the map of this moment, from which the viewer predicts."""
    from gputui.probe.allocator.allocator import take_map
    from gputui.probe.looks.torch_reader import torch_reader

    raw_map = result["raw_map"] = take_map(torch, torch_reader.pools)
    use = raw_map.use if raw_map else torch_reader.pools.look(torch, has_pools=False)
    if use.capturing:
        return (
            f"A CUDA graph is being captured on device {min(use.capturing)}, and releasing memory now would break the"
            " capture: try again once it has ended."
        )
    if use.may_capture_unseen:
        return (
            "The program has a torch.cuda.CUDAGraph without a finished capture. If another thread is capturing it now,"
            " which cannot be seen from here, releasing memory would break that capture."
        )
    if raw_map is not None and _has_expandable_leftovers(raw_map):
        return (
            "A private pool that nobody uses any more has expandable segments, and PyTorch can fail half-way through"
            " releasing them."
        )
    return ""


def _has_expandable_leftovers(raw_map: RawMap) -> bool:
    from gputui.probe.allocator.blockmap import private_pools

    expandable = [entry for entry in raw_map.segments if entry.get("is_expandable", False)]
    return not all(raw_map.holders[key] for key in private_pools(expandable))


def _empty_cache(torch: ModuleType, result: dict[str, Any]) -> str:
    """Empty the cache. PyTorch unmaps pages of all devices but synchronises only the current: this does the others."""
    current = torch._C._cuda_getDevice()
    segments = result["raw_map"].segments if result["raw_map"] else ()
    for device in sorted({entry["device"] for entry in segments if entry.get("is_expandable", False)} - {current}):
        torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    return ""


def _begin_history(torch: ModuleType, _result: dict[str, Any]) -> str:
    from gputui.probe.allocator.memory_history import memory_history

    return memory_history.switch_on(torch)


def _end_history(torch: ModuleType, _result: dict[str, Any]) -> str:
    from gputui.probe.allocator.memory_history import memory_history

    return _KEPT if memory_history.is_kept else memory_history.switch_off(torch)


class Action(NamedTuple):
    """`why_not` (asked first) and `perform` return a sentence if the action cannot be or was not done, else ""."""

    needs_cuda: bool
    why_not: Callable[[Any, dict[str, Any]], str]
    perform: Callable[[Any, dict[str, Any]], str]


def _always(_torch: ModuleType, _result: dict[str, Any]) -> str:
    return ""


ACTIONS = {
    "collect": Action(needs_cuda=False, why_not=_always, perform=_collect),
    "empty_cache": Action(needs_cuda=True, why_not=_why_not_emptied, perform=_empty_cache),
    "history_on": Action(needs_cuda=True, why_not=_always, perform=_begin_history),
    "history_off": Action(needs_cuda=True, why_not=_always, perform=_end_history),
}
"""By name, which is a value of `model.attached.target.ActionName`."""

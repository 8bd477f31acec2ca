"""What may be done in the program, only when a viewer asks for it, and only in the program's main thread.

An action runs as one pending call, as looks do. What it raises stays here and is told in a sentence; what the program's
own signal handlers raise meanwhile passes through.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from time import perf_counter, time
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from gputui.probe import mainthread, process
from gputui.probe.mainthread_call import MainThreadCall

if TYPE_CHECKING:
    from gputui.probe.allocator import RawMap
    from gputui.probe.requests import ActionRequest

FORBIDDEN = "Who runs the program allows no actions in it: GPUTUI_PROBE_ACTS is 0."
BUSY = "Another action is under way."
_INTERRUPTED = "A signal of the program arrived in the middle of it, and went first: it may have been done in part."
_NO_TORCH = "The program has not imported PyTorch."
_NO_CUDA = "The program has not initialised CUDA: there is nothing to do it to."
_COLLECTS = "A collection was under way at that moment, and one does not begin inside another."


class ActionRunner:
    """Does one action at a time; all but the action itself runs in the probe's thread."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._call: MainThreadCall[dict[str, Any]] = MainThreadCall(wake)
        self._wait_s = 0.0
        self._is_left = False
        self.name = ""
        """The action under way, "" where there is none."""

    @property
    def deadline(self) -> float | None:
        """When (`perf_counter`) to stop waiting for the main thread, None where no action is under way."""
        return self._call.deadline

    def begin(self, wanted: ActionRequest) -> None:
        """Ask the main thread for an action; the wake function is called once it is done."""
        torch = process.loaded_torch()
        if torch is not None:
            from gputui.probe import memory_history, torch_reader  # noqa: F401 (imports are not to be waited for over there)
        self.name, self._wait_s, self._is_left = wanted.name, wanted.wait_s, False
        if not process.takes_actions():
            self._call.settle(nothing_done(wanted.name, FORBIDDEN))
            self._wake()
            return
        interrupted = nothing_done(wanted.name, _INTERRUPTED)
        self._call.begin(lambda: self._act_in_the_main_thread(torch, wanted.name), wanted.wait_s, interrupted)

    def finished(self) -> dict[str, Any] | None:
        """The fields of `model.target.Acted`, once it is over; afterwards another may begin."""
        result = self._call.finished(lambda: nothing_done(self.name, self._why_not()))
        if result is not None:
            self.name = ""
            taken = result.pop("taken", None)
            if taken is not None:
                from gputui.probe.blockmap import describe_map

                result["map"] = describe_map(taken)
        return result

    def leave(self) -> None:
        """Nobody looks any more: what has not begun will not, and the history switched on for viewers ends."""
        self._is_left, self.name = True, ""
        self._call.leave()
        _end_own_history()

    def _act_in_the_main_thread(self, torch: ModuleType | None, name: str) -> dict[str, Any]:
        try:
            return _run_action(torch, name)
        finally:
            if self._is_left:
                _end_own_history()

    def _why_not(self) -> str:
        place = process.main_thread_location()
        return (
            f"The program's main thread did not come back to Python within {self._wait_s:g} s"
            f"{f' (it is at {place})' if place else ''}: nothing was done."
        )


def _end_own_history() -> None:
    module = sys.modules.get("gputui.probe.memory_history")  # without it nothing was ever switched on
    if module is not None:
        module.memory_history.switch_off_if_ours()


def _run_action(torch: ModuleType | None, name: str) -> dict[str, Any]:
    result = nothing_done(name, "")
    action = _ACTIONS[name]
    try:
        if torch is None and action.needs_cuda:
            result["reason"] = _NO_TORCH
        elif action.needs_cuda and not process.has_cuda(torch):
            result["reason"] = _NO_CUDA
        else:
            result["reason"] = action.why_not(torch, result) or _perform(torch, action, result)
    except Exception as error:  # whatever an action runs into stays out of somebody's training job
        if mainthread.is_of_the_program(error):
            raise
        result["reason"] = f"It failed: {type(error).__name__}: {error}"[:1000]
    return result


def _perform(torch: ModuleType | None, action: _Action, result: dict[str, Any]) -> str:
    before = _counters(torch)
    began = perf_counter()
    try:
        return action.perform(torch, result)
    finally:
        result["took_s"] = perf_counter() - began
        result["devices"] = [
            {
                "device": one["device"],
                "reserved_before_bytes": one["reserved_bytes"],
                "reserved_after_bytes": other["reserved_bytes"],
                "allocated_before_bytes": one["allocated_bytes"],
                "allocated_after_bytes": other["allocated_bytes"],
            }
            for one, other in zip(before, _counters(torch), strict=False)
        ]


def _counters(torch: ModuleType | None) -> list[dict[str, Any]]:
    if torch is None:
        return []
    from gputui.probe.torch_reader import device_statistics

    return device_statistics(torch, [])


def nothing_done(name: str, reason: str) -> dict[str, Any]:
    """The answer where an action was not done."""
    return {
        "type": "action_result",
        "time": time(),
        "name": name,
        "took_s": 0.0,
        "devices": [],
        "map": None,
        "collected": None,
        "reason": reason,
    }


def _collect(_torch: ModuleType | None, result: dict[str, Any]) -> str:
    """A full collection; inside a running one the interpreter begins none, and calls nobody back."""
    seen: dict[str, dict[str, int]] = {}
    note = seen.__setitem__  # not a function of Python, in which a signal's exception would be lost
    gc.callbacks.append(note)
    try:
        result["collected"] = gc.collect()
    finally:
        gc.callbacks.remove(note)
    return "" if "start" in seen else _COLLECTS


def _why_not_emptied(torch: ModuleType, result: dict[str, Any]) -> str:
    """Why the cache must be left alone now; the map of this moment is taken for the prediction."""
    from gputui.probe.allocator import take_map
    from gputui.probe.torch_reader import torch_reader

    taken = result["taken"] = take_map(torch, torch_reader.pools)
    use = taken.use if taken else torch_reader.pools.look(torch, has_pools=False)
    if use.capturing:
        return (
            f"A CUDA graph is being captured on device {min(use.capturing)}: to give memory back now would break the"
            " capture."
        )
    if use.may_capture_unseen:
        return (
            "A torch.cuda.CUDAGraph holds no capture yet: whether another thread is capturing one now cannot be told,"
            " and to give memory back then would break the capture."
        )
    if taken is not None and _has_expandable_leftovers(taken):
        return (
            "A private pool that nobody uses any more has expandable segments: PyTorch can fail half way when it"
            " releases them."
        )
    return ""


def _has_expandable_leftovers(taken: RawMap) -> bool:
    from gputui.probe.allocator import DEFAULT_POOL

    pools = {
        (entry["device"], tuple(entry.get("segment_pool_id", DEFAULT_POOL)))
        for entry in taken.segments
        if entry.get("is_expandable", False)
    }
    private = sorted(key for key in pools if key[1] != DEFAULT_POOL)
    return bool(private) and not all(taken.use.holders_of(private).values())


def _empty_cache(torch: ModuleType, result: dict[str, Any]) -> str:
    """PyTorch synchronises the current device alone before it unmaps pages of any: the others are waited for here."""
    current = torch._C._cuda_getDevice()
    segments = result["taken"].segments if result["taken"] else ()
    for device in sorted({entry["device"] for entry in segments if entry.get("is_expandable", False)} - {current}):
        torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    return ""


def _begin_history(torch: ModuleType, _result: dict[str, Any]) -> str:
    from gputui.probe.memory_history import memory_history

    return memory_history.switch_on(torch)


def _end_history(torch: ModuleType, _result: dict[str, Any]) -> str:
    from gputui.probe.memory_history import memory_history

    return memory_history.switch_off(torch)


class _Action(NamedTuple):
    """`why_not` and `perform` return a sentence where it is not, or was not, done."""

    needs_cuda: bool
    why_not: Callable[[Any, dict[str, Any]], str]
    perform: Callable[[Any, dict[str, Any]], str]


def _always(_torch: ModuleType, _result: dict[str, Any]) -> str:
    return ""


_ACTIONS = {
    "collect": _Action(needs_cuda=False, why_not=_always, perform=_collect),
    "empty_cache": _Action(needs_cuda=True, why_not=_why_not_emptied, perform=_empty_cache),
    "history_on": _Action(needs_cuda=True, why_not=_always, perform=_begin_history),
    "history_off": _Action(needs_cuda=True, why_not=_always, perform=_end_history),
}

"""Holds the main thread where most steps need the most memory, until the probe's thread has read the counters.

Only Python 3.12 and newer can: `sys.monitoring` calls back when one of a few functions of PyTorch begins or ends, and
costs nothing elsewhere. It is used only while a look waits for the top of a step.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from gputui.probe.guards.boundary import MAIN_THREAD
from gputui.probe.guards.originals import allocate_lock, perf_counter
from gputui.probe.guards.thread_numbers import is_main_thread


class Moment(NamedTuple):
    """A function, and the name of the event in `sys.monitoring.events` at which the main thread is held."""

    module: str
    function: str
    event: str


MOMENTS = (
    Moment("torch.nn.functional", "cross_entropy", "PY_RETURN"),
    Moment("torch.autograd", "backward", "PY_START"),
    Moment("torch.autograd", "grad", "PY_START"),
)
"""When a language model's loss returns, all copies of the logits are alive. `Tensor.backward` calls the second one."""
TOOLS = (4, 3)
"""The numbers of `sys.monitoring` that Python reserves for no special kind of tool."""
NAME = "gputui"
HOLD_S = 0.005
"""How long the main thread is held at most: the probe's thread needs a tenth of a millisecond to read the counters."""
HOLDS_AT_MOST = 8
"""How often the main thread is held while one look waits: a step may have several backward passes."""


class TopMoments:
    """All but `_comes`, which the interpreter calls, runs in the probe's thread, which `wake` wakes."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._events: dict[CodeType, int] = {}
        self._tool = 0
        self._holds_left = 0
        self._is_refused = False
        self._go = allocate_lock()
        self._go.acquire()
        self._pid = os.getpid()
        self._held_at = 0.0
        """When (`perf_counter`) the main thread was held last."""
        self._spent_s = 0.0
        self.is_held = False
        """Whether the main thread is held at one of `MOMENTS`; it goes on by itself after `HOLD_S`."""

    @property
    def is_watching(self) -> bool:
        """Whether the main thread will be held at the next of `MOMENTS`."""
        return bool(self._events)

    def watch(self) -> None:
        """Hold the main thread at `MOMENTS` from now on, if this Python has `sys.monitoring`."""
        monitoring = getattr(sys, "monitoring", None)
        events = {} if monitoring is None or self._events or self._is_refused else _events(monitoring.events)
        if monitoring is None or not events:
            return
        try:
            self._tool = next(tool for tool in TOOLS if monitoring.get_tool(tool) is None)
            monitoring.use_tool_id(self._tool, NAME)
            self._events, self._holds_left = events, HOLDS_AT_MOST
            for event in set(self._events.values()):
                monitoring.register_callback(self._tool, event, self._comes)
            for code, event in self._events.items():
                monitoring.set_local_events(self._tool, code, event)
        except Exception:  # noqa: BLE001 (no number is free, or an audit hook of the program raises what it likes)
            self.leave()
            self._is_refused = True

    def leave(self) -> None:
        """Hold the main thread no more; if it is held now, `let_go` lets it go on."""
        events, self._events = self._events, {}
        if not events:
            return
        monitoring = sys.monitoring  # type: ignore[attr-defined]  # Python 3.12
        if monitoring.get_tool(self._tool) != NAME:  # the program has ended it
            return
        for code in events:
            monitoring.set_local_events(self._tool, code, monitoring.events.NO_EVENTS)
        monitoring.free_tool_id(self._tool)

    def let_go(self) -> None:
        """Let the main thread go on; a call that was handed to it meanwhile, such as a look, comes first."""
        if self.is_held:
            self.is_held = False
            self._spent_s += min(HOLD_S, perf_counter() - self._held_at)
            if self._go.locked():
                self._go.release()

    def spent_s(self) -> float:
        """For how many seconds the main thread was held since the last call."""
        spent_s, self._spent_s = self._spent_s, 0.0
        return spent_s

    def _comes(self, *_arguments: object) -> None:
        """The interpreter calls this in the thread that has come to one of `MOMENTS`."""
        MAIN_THREAD.enter(self._hold)

    def _hold(self) -> None:
        if not self._events or self._holds_left <= 0 or not is_main_thread() or os.getpid() != self._pid:
            return
        self._holds_left -= 1
        self._go.acquire(False)  # it is open if `let_go` came after the last time-out
        self._held_at, self.is_held = perf_counter(), True
        self._wake()
        self._go.acquire(True, HOLD_S)


def _events(events: Any) -> dict[CodeType, int]:  # noqa: ANN401 (`sys.monitoring.events` has no public type)
    """The event of each function in `MOMENTS`, unless it is missing or was replaced by another kind of object."""
    found = {}
    for moment in MOMENTS:
        module = sys.modules.get(moment.module)
        function = module.__dict__.get(moment.function) if module else None
        if type(function) is FunctionType:
            found[function.__code__] = getattr(events, moment.event)
    return found

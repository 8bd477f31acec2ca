"""Holds the main thread at the start of a backward pass, where most steps need the most memory.

Python 3.12 and newer can tell of it: `sys.monitoring` calls back when one of PyTorch's two functions that begin a
backward pass is entered, and costs nothing elsewhere. It is used only while a look waits for the top of a step.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType

from gputui.probe.guards.boundary import MAIN_THREAD
from gputui.probe.guards.originals import allocate_lock
from gputui.probe.guards.thread_numbers import is_main_thread

FUNCTIONS = ("backward", "grad")
"""The functions of `torch.autograd` that begin a backward pass; `Tensor.backward` calls the first."""
TOOLS = (4, 3)
"""The numbers that Python leaves to tools of no special kind."""
NAME = "gputui"
HOLD_S = 0.005
"""How long the main thread is held at most: the probe's thread needs a tenth of a millisecond to read the counters."""
HOLDS_AT_MOST = 8
"""How often, while one look waits: a step may have several backward passes."""


class BackwardStart:
    """Everything but the call of the interpreter happens in the probe's thread, which `wake` wakes."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._codes: tuple[CodeType, ...] = ()
        self._tool = 0
        self._holds_left = 0
        self._is_refused = False
        self._go = allocate_lock()
        self._go.acquire()
        self._pid = os.getpid()
        self.is_held = False
        """Whether the main thread waits at the start of a backward pass."""

    @property
    def is_watching(self) -> bool:
        """Whether the next backward pass will be held."""
        return bool(self._codes)

    def watch(self, torch: ModuleType) -> None:
        """Hold the backward passes of the main thread from now on, where this Python can tell of them."""
        monitoring = getattr(sys, "monitoring", None)
        autograd = sys.modules.get(f"{torch.__name__}.autograd")
        if monitoring is None or autograd is None or self._codes or self._is_refused:
            return
        functions = [autograd.__dict__.get(name) for name in FUNCTIONS]
        codes = tuple(function.__code__ for function in functions if type(function) is FunctionType)
        try:
            self._tool = next(tool for tool in TOOLS if monitoring.get_tool(tool) is None)
            monitoring.use_tool_id(self._tool, NAME)
            self._codes, self._holds_left = codes, HOLDS_AT_MOST
            monitoring.register_callback(self._tool, monitoring.events.PY_START, self._begins)
            for code in codes:
                monitoring.set_local_events(self._tool, code, monitoring.events.PY_START)
        except Exception:  # noqa: BLE001 (no number is free, or an audit hook of the program raises what it likes)
            self.leave()
            self._is_refused = True

    def leave(self) -> None:
        """Hold no more; one that is held goes on with `let_go`."""
        codes, self._codes = self._codes, ()
        if not codes:
            return
        monitoring = sys.monitoring  # type: ignore[attr-defined]  # Python 3.12
        if monitoring.get_tool(self._tool) != NAME:  # the program has ended it
            return
        for code in codes:
            monitoring.set_local_events(self._tool, code, monitoring.events.NO_EVENTS)
        monitoring.free_tool_id(self._tool)

    def let_go(self) -> None:
        """Have the main thread go on; what it was asked to do meanwhile it does first."""
        if self.is_held:
            self.is_held = False
            if self._go.locked():
                self._go.release()

    def _begins(self, _code: CodeType, _offset: int) -> None:
        """The interpreter calls this in the thread that begins a backward pass."""
        MAIN_THREAD.enter(self._hold)

    def _hold(self) -> None:
        if not self._codes or self._holds_left <= 0 or not is_main_thread() or os.getpid() != self._pid:
            return
        self._holds_left -= 1
        self._go.acquire(False)  # where the last one was held for too long, it is open
        self.is_held = True
        self._wake()
        self._go.acquire(True, HOLD_S)

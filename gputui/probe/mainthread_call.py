"""A request to the program's main thread with a deadline: the result arrives later, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from types import FunctionType
from typing import Generic, TypeVar, cast

from gputui.probe import mainthread

Result = TypeVar("Result")


class MainThreadCall(Generic[Result]):
    """One call at a time. Used by the probe's thread; `wake` is called in the main thread when there is a result."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._pending = mainthread.PendingCall()
        self._result: Result | None = None
        self._number = 0
        """Of the call under way: a result that an earlier, abandoned call still delivers is dropped."""
        self.deadline: float | None = None
        """When (`perf_counter`) to stop waiting for the main thread, None if no call is under way."""

    @property
    def is_main_thread_absent(self) -> bool:
        """Whether the main thread has not come back to Python since the last request."""
        return self._pending.is_queued

    def begin(self, function: Callable[[], Result], wait_s: float, if_interrupted: Result) -> None:
        """Have `function` run soon; the result is `if_interrupted` if a signal handler of the program interrupts it."""
        self._result, self.deadline = None, perf_counter() + wait_s
        self._number = number = self._number + 1
        mainthread.keep_from_compiling(cast("FunctionType", mainthread.PendingCall.__bool__))
        self._pending.request(lambda: self._run(function, if_interrupted, number))

    def settle(self, result: Result) -> None:
        """Set the result without the main thread."""
        self._result, self.deadline = result, perf_counter()

    def finished(self, instead: Callable[[], Result]) -> Result | None:
        """The result, once. If the deadline has passed first, the call is withdrawn and `instead()` is the result."""
        if self.deadline is None:
            return None
        if self._result is None and perf_counter() >= self.deadline and self._pending.withdraw():
            self._result = instead()
        result = self._result
        if result is not None:
            self._result = self.deadline = None
        return result

    def leave(self) -> None:
        """Drop a call that has not begun, and the result of one that has: no viewer waits for it any more."""
        self._pending.withdraw()
        self._number += 1
        self._result = self.deadline = None

    def _run(self, function: Callable[[], Result], if_interrupted: Result, number: int) -> None:
        result = if_interrupted
        try:
            result = function()
        finally:
            if number == self._number:
                self._result = result
            self._wake()

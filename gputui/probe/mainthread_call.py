"""One thing at a time that the program's main thread is asked to do, and that is not waited for without end."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from types import FunctionType
from typing import Generic, TypeVar, cast

from gputui.probe import compiler, mainthread

Result = TypeVar("Result")


class MainThreadCall(Generic[Result]):
    """Belongs to the probe's thread; `wake` is called in the main thread once there is a result."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._main = mainthread.PendingCall()
        self._result: Result | None = None
        self._number = 0
        """Of the call under way: what an earlier one brings that nobody waits for any more is dropped."""
        self.deadline: float | None = None
        """When (`perf_counter`) to stop waiting for the main thread, None where nothing is under way."""

    @property
    def is_main_thread_absent(self) -> bool:
        """Whether the main thread has not come back since it was asked last."""
        return self._main.is_queued

    def begin(self, function: Callable[[], Result], wait_s: float, if_interrupted: Result) -> None:
        """Have `function` run soon; should one of the program's signals end it, the result is `if_interrupted`."""
        self._result, self.deadline = None, perf_counter() + wait_s
        self._number = number = self._number + 1
        compiler.keep_from_compiling(cast("FunctionType", mainthread.PendingCall.__bool__))
        self._main.request(lambda: self._run(function, if_interrupted, number))

    def settle(self, result: Result) -> None:
        """Have a result without the main thread."""
        self._result, self.deadline = result, perf_counter()

    def finished(self, instead: Callable[[], Result]) -> Result | None:
        """The result, once; what `instead` returns where the main thread did not come in time and now will not."""
        if self.deadline is None:
            return None
        if self._result is None and perf_counter() >= self.deadline and self._main.withdraw():
            self._result = instead()
        result = self._result
        if result is not None:
            self._result = self.deadline = None
        return result

    def leave(self) -> None:
        """Nobody waits any more: what has not begun will not."""
        self._main.withdraw()
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

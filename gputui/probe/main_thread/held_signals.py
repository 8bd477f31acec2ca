"""Holds back the program's signal handlers for the time of a stop.

Python runs a signal handler between any two instructions of the main thread, and so between those of a look, while
PyTorch's modes are suspended: tensors that a handler computes would have no graph then, or be of another type. So each
handler is replaced by a function of C that notes the signal; the handler itself runs right after the stop.

`signal.signal` also changes which function the kernel calls, and undoes `signal.siginterrupt`. So signals for which the
kernel calls a function that is not Python's are left alone, and afterwards the kernel's settings are restored.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` calls the handlers' own `__hash__`
from collections.abc import Callable
from ctypes import Array, c_char, c_int, c_void_p, create_string_buffer, pythonapi
from functools import lru_cache
from itertools import compress
from types import FrameType
from typing import Any, NamedTuple

from gputui.probe.guards.probe_thread import FAULTS
from gputui.probe.guards.thread_numbers import is_main_thread
from gputui.probe.objects.stacks import frame_of_the_program

ACTION_BYTES = 256
"""More than the kernel's settings for a signal take (`struct sigaction`), whose first word is the function it calls."""
WORD_BYTES = 8
HELD = sorted(_signal.valid_signals() - FAULTS)
"""The signals whose handlers are held back."""
IGNORED_BY_DEFAULT = (_signal.SIGURG, _signal.SIGWINCH, _signal.SIGCONT)
"""Signals that do nothing without a handler: `_pythons_function` gives one of them a handler for a moment."""


class _Held(NamedTuple):
    """A handler that is held back, and the kernel's settings for its signal."""

    number: int
    handler: Any
    action: Array[c_char]


class _Signals:
    """The signals that are held back in this process. A forked child puts back those that it finds here."""

    def __init__(self) -> None:
        self.held: list[_Held] = []
        self.noted: dict[int, FrameType | None] = {}
        self.note = self.noted.setdefault
        """The handler in between, called with number and frame. A function of C: no Python code runs within a look."""

    def hold(self, kept: dict[int, Any]) -> None:
        """Have signals noted instead of handled; call it in the main thread. `kept` gets their handlers.

        A handler that is not replaced yet may end this by an exception, when signals of others are noted already.
        """
        python = _pythons_function()
        if python is None:
            return
        handlers = list(map(_signal.getsignal, HELD))
        for number, handler in compress(zip(HELD, handlers), map(callable, handlers)):
            action = _action(number)
            if action.raw[:WORD_BYTES] == python:
                self.held.append(_Held(number, handler, action))  # first: an exception may pass at any place
                kept[number] = handler
                _signal.signal(number, self.note)

    def put_back(self) -> None:
        """Let the program's handlers run again."""
        set_action = _sigaction()
        while self.held:
            number, handler, action = self.held[-1]
            _signal.signal(number, handler)
            set_action(number, action, None)
            self.held.pop()

    def deliver(self, handlers: dict[int, Callable[[int, FrameType | None], object]]) -> None:
        """Run the handlers of the signals that were noted; each may raise an exception, which goes to the program."""
        while self.noted:
            number = min(self.noted)
            del self.noted[number]
            try:
                handlers.get(number, _raise_again)(number, frame_of_the_program())
            except BaseException:  # the handler's, which goes to the program
                while self.noted:  # leave them to Python, which handles them at the program's next instruction
                    _signal.raise_signal(self.noted.popitem()[0])
                raise


_signals = _Signals()


def without_handlers(function: Callable[[], None]) -> None:
    """Call `function`; in the main thread, handlers of signals that arrive meanwhile run when it is over."""
    if not is_main_thread() or _signals.held:
        function()
        return
    handlers: dict[int, Any] = {}
    try:
        try:
            try:
                _signals.hold(handlers)
                function()
            finally:  # once put back, a handler may raise an exception in the middle of this
                _signals.put_back()
        finally:
            _signals.put_back()
    finally:
        _signals.put_back()
        _signals.deliver(handlers)


def after_fork_in_child() -> None:
    """If another thread has forked during a stop, its copy is the child's main thread: put the handlers back there."""
    _signals.noted.clear()
    _signals.put_back()


def _raise_again(number: int, _frame: FrameType | None) -> None:
    """Leave a signal to Python: it came while `_pythons_function` was looking for its function."""
    _signal.raise_signal(number)


def _action(number: int) -> Array[c_char]:
    """The kernel's settings for a signal."""
    action = create_string_buffer(ACTION_BYTES)
    _sigaction()(number, None, action)
    return action


@lru_cache(maxsize=None)
def _sigaction() -> Callable[[int, Any, Any], int]:
    """`sigaction(2)`; cached, as each new function object would be cyclic garbage."""
    sigaction = pythonapi["sigaction"]  # by item: a function object of our own, whose types may be set
    sigaction.argtypes, sigaction.restype = (c_int, c_void_p, c_void_p), c_int
    return sigaction


@lru_cache(maxsize=None)
def _pythons_function() -> bytes | None:
    """The address of the C function that the kernel calls where a signal has a Python handler; None if not found."""
    for number in IGNORED_BY_DEFAULT:
        before = _action(number)
        if before.raw[:WORD_BYTES] == bytes(WORD_BYTES) and _signal.getsignal(number) == _signal.SIG_DFL:
            _signal.signal(number, _signals.note)
            function = _action(number).raw[:WORD_BYTES]
            _signal.signal(number, _signal.SIG_DFL)
            _sigaction()(number, before, None)
            return function
    return None

"""Holding back the program's signal handlers for the time of a stop.

Python runs a signal handler between any two instructions of the main thread, and so between those of a look, while
PyTorch's modes are suspended: what the handler computes would then have no graph, or be of another type. So each
handler gives way to a function of C that notes the signal, and runs right after the stop, where the program is.

`signal.signal` also says what the kernel calls, and drops what `signal.siginterrupt` has said. So a signal for which
the kernel calls anything but Python is left alone, and the kernel's settings are put back as they were.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` looks handlers up in an enum, by their own hash
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
"""The signals whose handlers give way."""
IGNORED_BY_DEFAULT = (_signal.SIGURG, _signal.SIGWINCH, _signal.SIGCONT)
"""Signals that do nothing where nobody has asked for them: with one of these, Python's own function is found."""


class _Held(NamedTuple):
    """A handler that has given way, and the kernel's settings."""

    number: int
    handler: Any
    action: Array[c_char]


class _Signals:
    """Those of this process: a forked child puts back what it finds held here."""

    def __init__(self) -> None:
        self.held: list[_Held] = []
        self.noted: dict[int, FrameType | None] = {}
        self.note = self.noted.setdefault
        """Called with the number and the frame; not a Python function, so nothing runs in the middle of a look."""

    def hold(self) -> None:
        """Have signals noted, in the main thread."""
        python = _pythons_function()
        if python is None:
            return
        handlers = list(map(_signal.getsignal, HELD))
        for number, handler in compress(zip(HELD, handlers), map(callable, handlers)):
            action = _action(number)
            if action.raw[:WORD_BYTES] == python:
                self.held.append(_Held(number, handler, action))  # first: an exception may pass at any place
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
                handlers[number](number, frame_of_the_program())
            except BaseException:  # the handler's, which goes to the program
                while self.noted:  # as Python does, which keeps the others for the program's next instruction
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
                _signals.hold()
                handlers.update((held.number, held.handler) for held in _signals.held)
                function()
            finally:  # once put back, a handler may raise an exception in the middle of this
                _signals.put_back()
        finally:
            _signals.put_back()
    finally:
        _signals.put_back()
        _signals.deliver(handlers)


def after_fork_in_child() -> None:
    """Another thread has forked during a stop, and its copy is the main thread of the child."""
    _signals.noted.clear()
    _signals.put_back()


def _action(number: int) -> Array[c_char]:
    """The kernel's settings for a signal."""
    action = create_string_buffer(ACTION_BYTES)
    _sigaction()(number, None, action)
    return action


@lru_cache(maxsize=None)
def _sigaction() -> Callable[[int, Any, Any], int]:
    """`sigaction(2)`; cached, as each new function object would be cyclic garbage."""
    sigaction = pythonapi["sigaction"]  # by item: an object of our own, whose types may be set
    sigaction.argtypes, sigaction.restype = (c_int, c_void_p, c_void_p), c_int
    return sigaction


@lru_cache(maxsize=None)
def _pythons_function() -> bytes | None:
    """The address of the function of Python that the kernel calls for signals with a handler in Python."""
    for number in IGNORED_BY_DEFAULT:
        before = _action(number)
        if before.raw[:WORD_BYTES] == bytes(WORD_BYTES) and _signal.getsignal(number) == _signal.SIG_DFL:
            _signal.signal(number, _signals.note)
            function = _action(number).raw[:WORD_BYTES]
            _signal.signal(number, _signal.SIG_DFL)
            _sigaction()(number, before, None)
            return function
    return None

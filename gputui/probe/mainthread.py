"""Running something in the program's main thread, between two of its Python instructions.

CPython offers `Py_AddPendingCall` for this. What is registered is not a Python callback but the interpreter's own
`PyObject_IsTrue`, on an object whose truth is asked for: so an exception that one of the program's signal handlers
raises meanwhile (Ctrl-C, a time limit) arrives in the program exactly as it would have, which ctypes callbacks swallow.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import Any

_alive: list[PendingCall] = []
"""What the interpreter may still hold a pointer to: a call cannot be withdrawn from its queue."""


class PendingCall:
    """Asks the main thread to run a function; has one entry in the interpreter's queue, however often it is asked."""

    def __init__(self) -> None:
        self._function: Callable[[], None] | None = None
        self._is_queued = False
        _alive.append(self)

    @property
    def is_queued(self) -> bool:
        """Whether the main thread has not come to the queue since it was asked last."""
        return self._is_queued

    def request(self, function: Callable[[], None]) -> bool:
        """Have `function` run once, soon; False where the interpreter's queue is full. It replaces what still waits."""
        self._function = function
        if not self._is_queued:
            self._is_queued = self._add()
        return self._is_queued

    def withdraw(self) -> bool:
        """Forget what was asked for; False where the main thread has taken it already."""
        taken = self._function is None
        self._function = None
        return not taken

    def __bool__(self) -> bool:
        self._is_queued = False
        function, self._function = self._function, None
        if function is not None:
            function()
        return False

    def _add(self) -> bool:
        add, run = _functions()
        return bool(add(run, id(self)) == 0)


@cache
def _functions() -> tuple[Callable[[Any, int], int], Any]:
    """`Py_AddPendingCall` and the address of `PyObject_IsTrue`, made once: each would be garbage in a cycle."""
    import ctypes

    run = ctypes.cast(ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p)
    add = ctypes.pythonapi["Py_AddPendingCall"]  # by item: a function object of our own, with types of our own
    add.argtypes, add.restype = (ctypes.c_void_p, ctypes.c_void_p), ctypes.c_int
    return add, run


def is_of_the_program(error: BaseException) -> bool:
    """Whether an exception that came up here was raised by a signal handler of the program, and so belongs to it."""
    if not isinstance(error, Exception):
        return True
    handlers = {_code_of(handler) for handler in map(signal.getsignal, signal.valid_signals())} - {None}
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code in handlers:
            return True
        traceback = traceback.tb_next
    return False


def _code_of(handler: object) -> CodeType | None:
    function = handler if hasattr(handler, "__code__") or hasattr(handler, "__func__") else type(handler).__call__
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code if isinstance(code, CodeType) else None

"""Runs the probe's functions hidden from Python's profilers and tracers: cProfile, coverage, pdb, torch.profiler.

CPython calls none of them for a thread while its count of suspensions (`PyThreadState.tracing`) is above zero. A
profiler has seen a Python function before that function can do anything about it, so the count is raised by functions
of C alone; `sys.call_tracing`, also in C, puts it back as it was, even if an exception passes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import repeat
from operator import methodcaller
from typing import Any

TRACING_OFFSET_3_10 = 44
"""Where `tracing` lies in the `PyThreadState` of CPython up to 3.10, which has no function that changes it."""

_call = methodcaller("__call__")


class UntracedCall:
    """An object that calls `function`, which must return False, when C asks for its truth value (`PyObject_IsTrue`)."""

    __slots__ = ("__bool__",)  # C calls what is in this slot of the type

    def __init__(self, function: Callable[[], bool]) -> None:
        suspend, update = _functions()
        untraced = partial(sys.call_tracing, any, (_Calls((suspend, function)),))
        self.__bool__: Any = partial(any, _Calls((untraced, *update)))


class _Calls:
    """Iterates over what its functions return, calling one after the other; any number of times."""

    __slots__ = ("__iter__",)

    def __init__(self, functions: tuple[Callable[[], object], ...]) -> None:
        self.__iter__: Any = partial(map, _call, functions)


def untraced(function: Callable[[], Any]) -> Any:  # noqa: ANN401
    """Call a function hidden from profilers and tracers; returns what it returns.

    They see no function begin whose end they do not see. Nothing is hidden from memray: it keeps each frame that it has
    seen begin until it sees the frame end, and reads it at each allocation.
    """
    if "memray._memray" in sys.modules:
        return function()
    results: list[Any] = []
    any((UntracedCall(lambda: results.append(function())),))  # type: ignore[arg-type, return-value]
    return results[0]


@lru_cache(maxsize=None)
def _functions() -> tuple[Callable[[], object], tuple[Callable[[], object], ...]]:
    """A function of C that suspends tracing in the calling thread, and those to call afterwards from Python 3.11 on.

    Those update the interpreter's flag that something traces, which would otherwise miss a profiler that a signal
    handler of the program has started meanwhile. (In 3.10 it does: that profiler begins when another one is started.)
    """
    import ctypes

    own_state = ctypes.pythonapi["PyThreadState_Get"]  # by item: function objects of our own, whose types may be set
    own_state.restype = ctypes.c_void_p
    states = iter(own_state, None)  # endless: each `next` asks for the state of the calling thread
    if not hasattr(ctypes.pythonapi, "PyThreadState_EnterTracing"):  # Python 3.10 and older
        fill = ctypes.pythonapi["memset"]
        fill.argtypes, fill.restype = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t), None
        return map(fill, map(TRACING_OFFSET_3_10.__add__, states), repeat(1), repeat(1)).__next__, ()
    enter, leave = ctypes.pythonapi["PyThreadState_EnterTracing"], ctypes.pythonapi["PyThreadState_LeaveTracing"]
    for function in (enter, leave):
        function.argtypes, function.restype = (ctypes.c_void_p,), None
    suspend, resume = map(enter, states).__next__, map(leave, states).__next__
    return suspend, (suspend, resume)

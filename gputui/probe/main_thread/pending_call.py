"""Running a function in the program's main thread, between two of its Python instructions.

CPython offers `Py_AddPendingCall` for this. What is registered is not a ctypes callback but the interpreter's own
`PyObject_IsTrue`, with an object whose `__bool__` does the work. An exception that one of the program's signal handlers
raises meanwhile (Ctrl-C, a time limit) then reaches the program as it would have; a ctypes callback would swallow it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import lru_cache
from types import FrameType, FunctionType
from typing import Any

from gputui.probe.guards.boundary import MAIN_THREAD
from gputui.probe.guards.thread_frames import current_frames, stack
from gputui.probe.guards.thread_numbers import note_main_thread, noted_main_ident
from gputui.probe.main_thread.untraced import UntracedCall

FRAMES = 100
"""How many nested calls a look needs, and some more, in a program that is deep in recursion."""
_alive: list[PendingCall] = []
"""Every PendingCall ever made: a call cannot be taken out of the interpreter's queue, which holds a bare pointer."""


class PendingCall:
    """Has the main thread run a function; takes one entry in the interpreter's queue at a time.

    Request nothing before the last entry `is_left`: the interpreter empties its queue before it goes on, so an entry
    that is added while ours runs is run at once, and the program may not make progress.
    """

    def __init__(self) -> None:
        self._function: Callable[[], None] | None = None
        self._is_queued = False
        self._pid = os.getpid()
        """A forked child may get a copy of the queue: entries that its parent has added do nothing there."""
        self._untraced: UntracedCall | None = None
        _alive.append(self)

    @property
    def is_queued(self) -> bool:
        """Whether the main thread has not reached the queue since the last request."""
        return self._is_queued

    @property
    def has_function(self) -> bool:
        """Whether a request has neither begun nor been withdrawn."""
        return self._function is not None

    @property
    def is_left(self) -> bool:
        """Whether there is no entry of ours in the queue, and the main thread is not inside one.

        Told from the stack, because a profiler may still run at the end of `__bool__`, after its last statement.
        """
        return not self._is_queued and not any(map(_is_inside, _where_it_may_run()))

    def request(self, function: Callable[[], None]) -> bool:
        """Have `function` run once, soon, instead of any that still waits; False if the interpreter's queue is full."""
        self._function = function
        if self._is_queued:
            return True
        self._is_queued = True  # before it is added: the main thread may run it before `_add` returns
        is_added = self._add()
        if not is_added:
            self._is_queued = False
        return is_added

    def forget(self) -> None:
        """Count the entry as gone: a signal handler of the program raised an exception right before the entry ran."""
        self._is_queued = False

    def withdraw(self) -> bool:
        """Drop the request; False if the main thread has taken it already."""
        has_begun = self._function is None
        self._function = None
        return not has_begun

    def __bool__(self) -> bool:
        MAIN_THREAD.enter(self._run)
        return False

    def _run(self) -> None:
        self._is_queued = False
        function, self._function = self._function, None
        note_main_thread()
        if function is not None and self._pid == os.getpid():
            _need_room(FRAMES)
            function()

    def _add(self) -> bool:
        add, is_true = _functions()
        if self._untraced is None:  # late, as it imports ctypes
            self._untraced = UntracedCall(self.__bool__)
        if sys.version_info < (3, 9) and _is_closed():
            return False
        return bool(add(is_true, id(self._untraced)) == 0)


def _need_room(frames: int) -> None:
    """Raise RecursionError unless so many nested calls are possible: a look must not fail half-way."""
    if frames:
        _need_room(frames - 1)


def _where_it_may_run() -> list[FrameType]:
    """The innermost frame of the main thread, or of all threads as long as that is not known for certain."""
    main = noted_main_ident()
    return [frame for ident, frame in current_frames().items() if main is None or ident == main]


def _is_inside(innermost: FrameType) -> bool:
    """Whether a stack, given by its innermost frame, is running a pending call of ours."""
    return any(frame.f_code is PendingCall.__bool__.__code__ for frame in stack(innermost))


@lru_cache(maxsize=None)
def _functions() -> tuple[Callable[[Any, int], int], Any]:
    """`Py_AddPendingCall` and the address of `PyObject_IsTrue`; cached, as each new one would be cyclic garbage."""
    import ctypes

    is_true = ctypes.cast(ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p)
    add = ctypes.pythonapi["Py_AddPendingCall"]  # by item: a function object of our own, whose types may be set
    add.argtypes, add.restype = (ctypes.c_void_p, ctypes.c_void_p), ctypes.c_int
    return add, is_true


def _is_closed() -> bool:
    """Whether Python 3.8 is ending and has closed its queue: it prints an error for a new call."""
    import ctypes

    runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    return bool(ctypes.c_int.from_address(runtime + 600).value)


def keep_from_compiling(function: FunctionType, *, is_early: bool = False) -> None:
    """Keep torch.compile away from this function and all it calls, even if it interrupts a compiled program.

    Call it before a pending call or PyTorch runs the function. Otherwise Dynamo would trace the look, which then sees
    fake tensors and fails. `is_early`: also if the program has not imported Dynamo yet, as it may still compile.
    """
    if "torch._dynamo" not in sys.modules and not is_early:  # the program compiles nothing
        return
    eval_frame: Any = sys.modules.get("torch._C._dynamo.eval_frame")
    if hasattr(eval_frame, "set_code_exec_strategy"):  # PyTorch 2.8 and newer
        skip = eval_frame._FrameAction.SKIP
        eval_frame.set_code_exec_strategy(function.__code__, eval_frame._FrameExecStrategy(skip, skip))
    elif hasattr(eval_frame, "skip_code"):
        eval_frame.skip_code(function.__code__)

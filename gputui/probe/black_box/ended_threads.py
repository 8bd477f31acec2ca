"""Where an error ends only a thread of the program, writes the line about the file after Python's traceback.

Only threads in which a request has failed are watched: Python calls a thread's `_invoke_excepthook` at such an end.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from gputui.probe.guards.boundary import BLACK_BOX

ATTRIBUTE = "_invoke_excepthook"


def watch(has_ended: Callable[[BaseException], Callable[[], None] | None]) -> None:
    """If an exception ends this thread, call what `has_ended` returns for it once the traceback was written.

    For the main thread, and for threads that `threading` has not started, this does nothing.
    """
    thread = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]  # `current_thread` adds unknown ones
    own = object.__getattribute__(thread, "__dict__") if isinstance(thread, threading.Thread) else {}
    invoke = own.get(ATTRIBUTE)
    if thread is threading.main_thread() or invoke is None or isinstance(invoke, _AndThen):
        return
    own[ATTRIBUTE] = _AndThen(invoke, has_ended)


class _AndThen:
    """A thread's `_invoke_excepthook`, and the call after it."""

    def __init__(
        self, invoke: Callable[..., object], has_ended: Callable[[BaseException], Callable[[], None] | None]
    ) -> None:
        self._invoke = invoke
        self._has_ended = has_ended

    def __call__(self, *arguments: object) -> None:
        say = None
        try:
            say = BLACK_BOX.enter(self._say_for, sys.exc_info()[1])
        finally:
            self._invoke(*arguments)
        if say is not None:
            BLACK_BOX.enter(say)

    def _say_for(self, error: BaseException | None) -> Callable[[], None] | None:
        return None if error is None else self._has_ended(error)

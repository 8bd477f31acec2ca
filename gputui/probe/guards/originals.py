"""Python's own functions for threads, waiting and clocks, where a library has put others in their place.

gevent and eventlet replace them with functions that switch to other code of the program. Such a function would run the
program in the middle of a look, and start a second event loop in the probe's thread. freezegun replaces clocks: with
those, no deadline of the probe's would pass. Python can make a second copy of a module of C, which has functions of its
own; the program's module stays as it is.

This text also runs in a program before anything can be imported there, `__future__` included: see `bootstrap`.
"""

import _thread
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_fresh: "dict[str, ModuleType]" = {}
"""Second copies of modules of C, by name."""
_replaced: "list[str]" = []
"""Functions that a library has replaced and of which no second copy can be made (Python 3.9 and older)."""


def original(module: "ModuleType", name: str) -> "Any":  # noqa: ANN401
    """What the module had under this name when Python made it, or adds the name to `_replaced`."""
    value = getattr(module, name, None)
    if getattr(value, "__module__", None) == module.__name__:
        return value
    if sys.version_info < (3, 10):  # there, making a module of C again changes the one that exists
        _replaced.append(f"{module.__name__}.{name}")
        return value
    if module.__name__ not in _fresh:
        loader: Any = module.__spec__.loader  # type: ignore[union-attr]  # every module of C has one
        _fresh[module.__name__] = fresh = loader.create_module(module.__spec__)
        loader.exec_module(fresh)
    return getattr(_fresh[module.__name__], name)


def refusal() -> str:
    """Why the probe cannot work here, "" if it can."""
    if not _replaced:
        return ""
    return (
        f"a library has replaced {', '.join(_replaced)}, and this Python is too old to find its own: start the program"
        " with: gputui run"
    )


RLock = original(_thread, "RLock")
allocate_lock = original(_thread, "allocate_lock")
get_ident = original(_thread, "get_ident")
get_native_id = original(_thread, "get_native_id")
start_new_thread = original(_thread, "start_new_thread")
monotonic: "Callable[[], float]" = original(time, "monotonic")
perf_counter: "Callable[[], float]" = original(time, "perf_counter")
sleep = original(time, "sleep")
thread_time: "Callable[[], float]" = original(time, "thread_time")
wall_clock: "Callable[[], float]" = original(time, "time")

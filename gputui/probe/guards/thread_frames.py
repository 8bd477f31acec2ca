"""The frames of the threads, without a garbage collection in the middle of asking for them.

In Python 3.11, asking for a frame may make an object of it, and that may begin a collection. If an object of the
program lets other threads run as it is freed, as a tensor does, two things can happen. `sys._current_frames` holds the
lock that starting and ending threads need: such a thread waits for that lock, and this one for the interpreter's lock,
for ever. Or another thread leaves the very frame whose object is being made. Newer versions collect at other times; in
older versions, frames are objects from the start.
"""

from __future__ import annotations

import gc
import sys
from _functools import partial  # type: ignore[import-not-found]  # `functools` and `operator` cost milliseconds
from _operator import methodcaller
from itertools import accumulate, chain, compress, repeat, takewhile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType
    from typing import Any, TypeVar

    Result = TypeVar("Result")

_COLLECTS_MEANWHILE = sys.version_info[:2] == (3, 11)
_call = methodcaller("__call__")
_Frame = type(sys._getframe())
_caller_of: Callable[[Any, Any], Any] = _Frame.__dict__["f_back"].__get__


def current_frames() -> dict[int, FrameType]:
    """Each thread's innermost frame, by the interpreter's number of the thread."""
    return _uncollected(sys._current_frames)


def stack(innermost: FrameType | None) -> list[FrameType]:
    """A frame, its caller, and so on; [] for None."""
    return stacks((innermost,))[0]


def stacks(innermost: Iterable[FrameType | None]) -> list[list[FrameType]]:
    """The stack of each of these frames, all in one call of C: a program may have thousands of threads."""
    begun = map(chain, zip(tuple(innermost)), repeat(repeat(_Frame)))
    callers = map(takewhile, repeat(bool), map(accumulate, begun, repeat(_caller_of)))
    return _uncollected(partial(list, map(list, callers)))


def _uncollected(function: Callable[[], Result]) -> Result:
    """Call a function of C while no garbage collection can begin; returns what it returns."""
    if not _COLLECTS_MEANWHILE:
        return function()
    # All of this is done in C, so no other thread can switch collections on or off in between.
    without = partial(list, map(_call, (gc.disable, function, gc.enable)))
    if_collecting = compress((without,), map(_call, (gc.isenabled,)))
    try:
        found = list(map(_call, if_collecting))
    except MemoryError:
        gc.enable()
        raise
    # No variable here may hold the result, which may have this function's own frame: that cycle would keep all of it.
    return found.pop()[1] if found else function()

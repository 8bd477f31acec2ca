"""The frames of the threads, without a garbage collection in the middle of asking for them.

In Python 3.11, asking for a frame may make an object of it, and that may begin a collection. If an object of the
program lets other threads run as it is freed, as a tensor does, two things can happen. `sys._current_frames` holds the
lock that starting and ending threads need: they wait for it, and this thread for the interpreter's, for ever. And
another thread may leave the very frame whose object is being made. Newer versions collect at other times, and in older
ones frames are objects.
"""

from __future__ import annotations

import gc
import sys
from _functools import partial  # type: ignore[import-not-found]  # `functools` and `operator` cost milliseconds
from _operator import methodcaller
from itertools import accumulate, compress, repeat, takewhile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import TypeVar

    Result = TypeVar("Result")

_COLLECTS_MEANWHILE = sys.version_info[:2] == (3, 11)
_call = methodcaller("__call__")
_Frame = type(sys._getframe())
_caller_of = _Frame.__dict__["f_back"].__get__


def current_frames() -> dict[int, FrameType]:
    """The innermost frames by the interpreter's numbers of their threads."""
    return _uncollected(sys._current_frames)


def stack(innermost: FrameType | None) -> list[FrameType]:
    """A frame, the one that has called it, and so on."""
    if innermost is None:
        return []
    frames = accumulate(repeat(_Frame), _caller_of, initial=innermost)
    return _uncollected(partial(list, takewhile(bool, frames)))


def _uncollected(function: Callable[[], Result]) -> Result:
    """What a function of C returns, during which nothing is collected."""
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

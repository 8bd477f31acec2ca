"""The innermost frame of every thread, without a garbage collection in the middle of asking for them.

`sys._current_frames` holds the lock that starting and ending threads need. Python 3.11 makes objects of frames
meanwhile, which may begin a collection: if an object of the program lets other threads run as it is freed, as a tensor
does, they wait for that lock, and this thread for the interpreter's. Newer versions collect at other times, and in
older ones the frames are objects already.
"""

from __future__ import annotations

import gc
import sys
from _functools import partial  # type: ignore[import-not-found]  # `functools` and `operator` cost milliseconds
from _operator import methodcaller
from itertools import compress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

_COLLECTS_MEANWHILE = sys.version_info[:2] == (3, 11)
_call = methodcaller("__call__")


def current_frames() -> dict[int, FrameType]:
    """The innermost frames by the interpreter's numbers of their threads."""
    if not _COLLECTS_MEANWHILE:
        return sys._current_frames()
    try:
        found = list(_if_collecting())
    except MemoryError:
        gc.enable()
        raise
    return found.pop()[1] if found else sys._current_frames()  # a variable that held this very frame would be a cycle


def _if_collecting() -> Any:  # noqa: ANN401
    """What the functions return; nothing where collections are off.

    All of this is done in C, so no other thread can switch collections on or off in between.
    """
    uncollected = partial(list, map(_call, (gc.disable, sys._current_frames, gc.enable)))
    return map(_call, compress((uncollected,), map(_call, (gc.isenabled,))))

"""The numbers that the interpreter and the kernel have for the main thread.

`threading.main_thread().ident` is no thread's number where a library has replaced threads (gevent), and a function of C
that trusts such a number reads wild memory. So numbers are taken in the main thread itself, and used only where they
are checked: as keys of a dictionary, in paths below /proc, and by the kernel.
"""

from __future__ import annotations

import os
import sys
from time import clock_gettime

from gputui.probe.guards.originals import get_ident, get_native_id

_THREAD_CLOCK = 0b110
"""The bits of a clock's number (clock_gettime(2)) that mean one thread's processor time."""


class _MainThread:
    """`pid` is the process in which the numbers were taken: a fork that runs no hooks leaves the parent's."""

    def __init__(self) -> None:
        self.ident: int | None = None
        self.native_id: int | None = None
        self.pid: int | None = None

    def note(self) -> None:
        self.ident, self.native_id, self.pid = get_ident(), get_native_id(), os.getpid()


_main = _MainThread()
note_main_thread = _main.note
"""Takes the numbers of the calling thread. Call it only where the interpreter itself says that it is the main one."""


def note_first_thread() -> None:
    """Take the numbers if this is the thread with which the process began: the main one, unless Python is embedded."""
    if _main.ident is None and get_native_id() == os.getpid():
        _main.note()


def noted_main_ident() -> int | None:
    """The interpreter's number of the main thread; None as long as it was not taken there."""
    return _main.ident


def is_main_thread() -> bool:
    """Whether the calling thread is the main one."""
    return bool(get_ident() == main_ident())


def main_ident() -> int | None:
    """The interpreter's number of the main thread; `threading`'s (None without it) until the number was taken there."""
    if _main.ident is not None:
        return _main.ident
    threading = sys.modules.get("threading")
    return None if threading is None else threading.main_thread().ident


def main_native_id() -> int:
    """The kernel's number of the main thread."""
    if _main.native_id is not None and _main.pid == os.getpid():
        return _main.native_id
    threading = sys.modules.get("threading")
    native_id = None if threading is None else threading.main_thread().native_id
    is_there = native_id is not None and os.path.exists(f"/proc/self/task/{native_id}")
    return native_id if native_id is not None and is_there else os.getpid()  # a fork may leave the parent's number


def main_processor_s() -> float:
    """For how long the main thread has used the processor; 0.0 where the kernel knows no such thread."""
    try:
        return clock_gettime(~main_native_id() << 3 | _THREAD_CLOCK)
    except OSError:
        return 0.0

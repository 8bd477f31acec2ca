"""Waking the probe's thread from another, and keeping that thread out of the program's signals."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` wraps it in enums and costs 3 ms
import os

_FAULTS = frozenset({_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT, _signal.SIGTRAP})


class Wake:
    """A pipe to poll on: `up()` may be called from any thread, any number of times."""

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self._write_fd, False)

    def fileno(self) -> int:
        """What to poll on."""
        return self._read_fd

    def up(self) -> None:
        """Make the next poll return, or the one under way."""
        try:
            os.write(self._write_fd, b".")
        except BlockingIOError:
            pass  # full: it is awake already

    def clear(self) -> None:
        """Take what was written, so that the next poll waits."""
        try:
            os.read(self._read_fd, 4096)
        except BlockingIOError:
            pass  # it was woken by something else

    def close(self) -> None:
        """Close both ends."""
        os.close(self._read_fd)
        os.close(self._write_fd)


def leave_signals_to_the_program() -> None:
    """Block signals in the calling thread: the system calls of the program's threads are interrupted as without it.

    Faults stay open, so that a crash in here is reported as one (faulthandler).
    """
    _signal.pthread_sigmask(_signal.SIG_BLOCK, set(_signal.valid_signals()) - _FAULTS)

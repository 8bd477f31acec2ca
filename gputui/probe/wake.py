"""Waking the probe's thread from another, and keeping that thread out of the program's signals."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` wraps it in enums and costs 3 ms
import os

from gputui.probe.descriptors import Descriptor

_FAULTS = frozenset({_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT, _signal.SIGTRAP})


class Wake:
    """A pipe to poll on: `up()` may be called from any thread, any number of times."""

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self._write_fd, False)
        self._read, self._write = Descriptor(self._read_fd), Descriptor(self._write_fd)

    def fileno(self) -> int:
        """What to poll on."""
        return self._read_fd

    def check(self) -> None:
        """Raise NotOursError where the program has closed the pipe."""
        self._read.check()
        self._write.check()

    def up(self) -> bool:
        """Make the next poll return, or the one under way; False where the program has closed the pipe."""
        if not self._write.is_ours:
            return False
        try:
            os.write(self._write_fd, b".")
        except BlockingIOError:
            pass  # full: it is awake already
        return True

    def clear(self) -> None:
        """Take what was written, so that the next poll waits; raises NotOursError where the pipe is closed."""
        self.check()
        try:
            os.read(self._read_fd, 4096)
        except BlockingIOError:
            pass  # it was woken by something else

    def close(self) -> None:
        """Close both ends, unless the program has."""
        self._read.close()
        self._write.close()


def leave_signals_to_the_program() -> None:
    """Block signals in the calling thread: the system calls of the program's threads are interrupted as without it.

    Faults stay open, so that a crash in here is reported as one (faulthandler).
    """
    _signal.pthread_sigmask(_signal.SIG_BLOCK, set(_signal.valid_signals()) - _FAULTS)

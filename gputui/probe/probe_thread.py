"""Waking the probe's thread from another, and keeping that thread out of the program's signals."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` wraps it in enums and costs 3 ms
import _socket  # `socket` costs 7 ms

from gputui.probe.descriptors import Descriptor

_FAULTS = frozenset({_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT, _signal.SIGTRAP})


class Waker:
    """Two sockets, one to poll on: `wake()` may be called from any thread, any number of times."""

    def __init__(self) -> None:
        self._near, self._far = _socket.socketpair()
        for each in (self._near, self._far):
            each.setblocking(False)
        self._descriptors = Descriptor(self._near), Descriptor(self._far)

    def fileno(self) -> int:
        """What to poll on."""
        return self._near.fileno()

    def check(self) -> None:
        """Raise NotOursError where the program has closed one of them."""
        for each in self._descriptors:
            each.check()

    def wake(self) -> bool:
        """Make the next poll return, or the one under way; False where the program has closed them."""
        if not self._descriptors[1].is_ours:
            return False
        try:
            self._far.send(b".", _socket.MSG_NOSIGNAL)
        except BlockingIOError:
            pass  # full: it is awake already
        except BrokenPipeError:
            return False
        return True

    def clear(self) -> None:
        """Take what was sent, so that the next poll waits; raises NotOursError where the program has closed them."""
        self.check()
        try:
            self._near.recv(4096)
        except BlockingIOError:
            pass  # it was woken by something else

    def close(self) -> None:
        """Close both ends, unless the program has."""
        for each in self._descriptors:
            each.close()


def leave_signals_to_the_program() -> None:
    """Block signals in the calling thread: the system calls of the program's threads are interrupted as without it.

    Faults stay open, so that a crash in here is reported as one (faulthandler).
    """
    _signal.pthread_sigmask(_signal.SIG_BLOCK, set(_signal.valid_signals()) - _FAULTS)

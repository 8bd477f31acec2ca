"""The probe's thread: waking it from another thread, and keeping it out of the program's signals."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` wraps it in enums and costs 3 ms
import _socket  # `socket` costs 7 ms

from gputui.probe.descriptors import Descriptor

_FAULTS = frozenset({_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT, _signal.SIGTRAP})


class Waker:
    """A pair of sockets, of which the probe's thread polls one; any thread may call `wake()`, any number of times."""

    def __init__(self) -> None:
        self._receiver, self._sender = _socket.socketpair()
        for socket in (self._receiver, self._sender):
            socket.setblocking(False)
        self._descriptors = Descriptor(self._receiver), Descriptor(self._sender)

    def fileno(self) -> int:
        """What to poll on."""
        return self._receiver.fileno()

    def check(self) -> None:
        """Raise NotOursError if the program has closed one of the sockets."""
        for descriptor in self._descriptors:
            descriptor.check()

    def wake(self) -> bool:
        """End the poll under way, or the next one; False if the program has closed the sockets."""
        if not self._descriptors[1].is_ours:
            return False
        try:
            self._sender.send(b".", _socket.MSG_NOSIGNAL)
        except BlockingIOError:
            pass  # full, so the thread is being woken already
        except BrokenPipeError:
            return False
        return True

    def clear(self) -> None:
        """Let the next poll wait again; raises NotOursError if the program has closed the sockets."""
        self.check()
        try:
            self._receiver.recv(4096)
        except BlockingIOError:
            pass  # something else ended the poll

    def close(self) -> None:
        """Close both sockets, except where the program has done so."""
        for descriptor in self._descriptors:
            descriptor.close()


def leave_signals_to_the_program() -> None:
    """Block signals in the calling thread, so that they interrupt the same system calls as without the probe.

    Faults stay unblocked: a crash in this thread is then still reported as one (faulthandler).
    """
    _signal.pthread_sigmask(_signal.SIG_BLOCK, set(_signal.valid_signals()) - _FAULTS)

"""The probe's thread: how it waits, waking it from another thread, and keeping it out of the program's signals."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` wraps it in enums and costs 3 ms
import _socket  # `socket` costs 7 ms
import os
import select

from gputui.probe.guards.descriptors import Descriptor
from gputui.probe.guards.originals import original, sleep
from gputui.probe.guards.thread_frames import current_frames

poll = original(select, "poll")

FAULTS = frozenset({_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT, _signal.SIGTRAP})
_PAUSE_S = 0.0002


class Stop:
    """Tells one thread to end. Each thread has its own, as the next one may start before this one has ended."""

    is_asked = False


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
        except OSError:  # closed meanwhile, by the program or with the probe
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


def let_others_run() -> None:
    """Sleep for a moment between two pieces of work, so that the program's threads get the interpreter."""
    sleep(_PAUSE_S)


def leave_signals_to_the_program() -> None:
    """Block signals in the calling thread, so that they interrupt the same system calls as without the probe.

    Faults stay unblocked: a crash in this thread is then still reported as one (faulthandler).
    """
    _signal.pthread_sigmask(_signal.SIG_BLOCK, set(_signal.valid_signals()) - FAULTS)


def wait_until_gone(ident: int | None, native_id: int | None) -> None:
    """Wait until neither the interpreter nor the kernel knows a thread any more, a tenth of a second at most.

    Python 3.12 and newer count the kernel's threads at a fork, and warn of others. A thread that still runs Python when
    the interpreter ends is killed with the help of a library (libgcc_s); in a chroot that has not got it, this aborts
    the program. As a chroot may have no /proc either, the interpreter is asked as well.
    """
    for _ in range(1000):
        if ident not in current_frames() and not os.path.exists(f"/proc/self/task/{native_id}"):
            return
        sleep(0.0001)

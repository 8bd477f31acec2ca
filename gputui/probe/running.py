"""A probe that runs: one thread, blocked without a time limit until a viewer connects.

Whatever only viewers need is imported when the first one connects, in the probe's thread: most programs never have
one. The thread is started with `_thread` instead of `threading`, so that a program which joins or counts its threads
finds only its own.
"""

from __future__ import annotations

import os
from errno import EBADF
from select import POLLIN

from gputui.probe.guards import probe_thread
from gputui.probe.guards.boundary import OWN_THREAD, words_of
from gputui.probe.guards.descriptors import NotOursError, forget_cached_folders
from gputui.probe.guards.originals import allocate_lock, get_ident, get_native_id, monotonic, start_new_thread
from gputui.probe.guards.probe_thread import poll
from gputui.probe.viewers import sockets
from gputui.protocol import places

TYPE_CHECKING = False  # `typing` costs more to import than all of this
if TYPE_CHECKING:
    from collections.abc import Callable

    from gputui.probe.viewers.server import Server

_STOP_WITHIN_S = 0.5
_BACK_OFF_MS = 1000


class _LeftAlone(Exception):  # noqa: N818 - not an error
    """Nobody has been attached for `Running._linger_s` seconds."""


class Running:
    """A probe that runs: its socket, the thread that serves it, and everything that ends with it.

    `marks` are (number, time, label), `mark` adds one. The probe's thread calls `end` when the probe ends by itself.
    """

    def __init__(
        self,
        marks: list[tuple[int, float, str]],
        mark: Callable[[str], None],
        end: Callable[[Running, str], None],
    ) -> None:
        self._marks = marks
        self._mark = mark
        self._on_end = end
        self.pid = os.getpid()
        self.listener = sockets.listen()
        self.waker = probe_thread.Waker()
        self.server: Server | None = None
        self._linger_s: float | None = None
        self._leave_at: float | None = None
        self.is_ending = False  # True once it is to end: `lifecycle` starts a new probe only after that
        self.is_paused = False
        self._newest_stop = self._own_stop = probe_thread.Stop()  # of the newest thread, and of that which serves now
        self._thread_id: int | None = None
        self._thread_ident: int | None = None
        self._finished = allocate_lock()

    def serve(self) -> None:
        """Start the thread; raises RuntimeError if the system or the interpreter allows no more threads."""
        self._newest_stop = probe_thread.Stop()
        self.is_paused = False
        is_first = self._finished.acquire(blocking=False)  # each thread holds this lock for as long as it runs
        try:
            start_new_thread(OWN_THREAD.enter, (self._serve, self._newest_stop, is_first))
        except RuntimeError:
            if is_first:
                self._finished.release()
            raise

    def serve_again(self) -> None:
        """Start the thread again after `pause`; raises RuntimeError like `serve`."""
        if self.is_paused:
            self.serve()

    def leave_when_alone(self, linger_s: float) -> None:
        """Have the probe stop once nobody has been attached for `linger_s` seconds."""
        self._linger_s, self._leave_at = linger_s, monotonic() + linger_s
        self.waker.wake()

    def pause(self) -> bool:
        """End the thread, but keep the socket and the viewers; returns whether it has ended within `_STOP_WITHIN_S`."""
        self._newest_stop.is_asked = self.is_paused = True
        if not self.waker.wake():
            places.is_dead(self.listener.path)  # connects to the socket, which wakes the thread as well
        has_ended = self.wait_for_end()
        if has_ended:
            probe_thread.wait_until_gone(self._thread_ident, self._thread_id)
        return has_ended

    def wait_for_end(self) -> bool:
        """Wait for the thread, `_STOP_WITHIN_S` at most; returns whether it has ended."""
        has_ended = self._finished.acquire(timeout=_STOP_WITHIN_S)
        if has_ended:
            self._finished.release()
        return bool(has_ended)

    def check(self) -> None:
        """Raise NotOursError if the program has closed our descriptors."""
        self.listener.check()
        self.waker.check()

    def close(self) -> None:
        """Close every descriptor that is still ours; the socket's file stays."""
        self.listener.close()
        self.waker.close()
        if self.server is not None:
            self.server.close()

    def _serve(self, stop: probe_thread.Stop, is_first: bool) -> None:  # noqa: FBT001 (`start_new_thread` passes positional arguments)
        if not is_first:
            self._finished.acquire()
        try:
            self._thread_id, self._thread_ident = get_native_id(), get_ident()
            probe_thread.leave_signals_to_the_program()
            self._own_stop = stop
            self._serve_round(stop)  # even if asked to stop, for a program that forks all the time
            while not stop.is_asked:
                self._serve_round(stop)
            if self.is_ending:
                self._leave("ended by a viewer")
        except _LeftAlone:
            self._leave("ended: nobody was attached")
        except NotOursError as error:
            forget_cached_folders()
            self._on_end(self, f"off: {error}")
        except BaseException as error:  # noqa: BLE001 (no signal handler of the program runs in this thread)
            self._on_end(self, f"off: {words_of(error)}")
        finally:
            self._finished.release()

    def _serve_round(self, stop: probe_thread.Stop) -> None:
        """Serve. The first error of a kind disconnects all viewers, the second of that kind also ends this thread."""
        try:
            self._serve_once(stop)
        except (_LeftAlone, NotOursError):
            raise
        except Exception as error:
            self.check()
            if isinstance(error, OSError) and error.errno == EBADF:  # the descriptor of a viewer's socket
                raise NotOursError from error
            OWN_THREAD.note(error)
            server, self.server = self.server, None
            if server is not None:
                server.fail(OWN_THREAD.problem)
            else:
                self.listener.refuse(OWN_THREAD.problem)
            if OWN_THREAD.is_off:
                raise

    def _serve_once(self, stop: probe_thread.Stop) -> None:
        if not (self.server is not None and self.server.is_busy) and not self._wait_for_a_viewer(stop):
            return
        self.check()
        if self.server is None:
            try:
                from gputui.probe.viewers.server import Server
            except OSError:  # the program has no descriptor left to read the module with, so the viewer has to wait
                self._back_off()
                return
            self.server = Server(self.listener, self.waker, self._marks, self._mark, self._end)
        self.server.run(stop)
        if self._linger_s is not None:
            self._leave_at = monotonic() + self._linger_s

    def _leave(self, reason: str) -> None:
        self.is_ending = True
        self._on_end(self, reason)

    def _end(self) -> str:
        """Have this thread, and with it the probe, end; returns why it does not, "" if it does."""
        if self._linger_s is None:
            return "The program was started with its probe, which ends with the program."
        self.is_ending = self._own_stop.is_asked = True
        return ""

    def _wait_for_a_viewer(self, stop: probe_thread.Stop) -> bool:
        """Whether a viewer has connected; False if something else woke the thread."""
        self.check()
        waiting = poll()
        waiting.register(self.listener.fileno(), POLLIN)
        waiting.register(self.waker.fileno(), POLLIN)
        ready = waiting.poll(0 if stop.is_asked else self._left_ms())
        has_connected = any(fd == self.listener.fileno() for fd, _ in ready)
        if not has_connected and self._left_ms() == 0:
            raise _LeftAlone
        self.waker.clear()
        return has_connected

    def _left_ms(self) -> float | None:
        """Milliseconds to wait for a viewer. No limit (None), and so no idle waking, unless the probe was put in."""
        return None if self._leave_at is None else max(0.0, self._leave_at - monotonic()) * 1000

    def _back_off(self) -> None:
        waiting = poll()
        waiting.register(self.waker.fileno(), POLLIN)
        waiting.poll(_BACK_OFF_MS)

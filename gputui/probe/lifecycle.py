"""Start, stop, fork and exit of the probe: one thread, blocked without a time limit until a viewer connects.

Whatever only viewers need is imported when the first one connects, in the probe's thread: most programs never have
one. The thread is started with `_thread` instead of `threading`, so that a program which joins or counts its threads
finds only its own.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
from errno import EBADF
from itertools import count
from select import POLLIN, poll
from time import sleep, time

from gputui import environment
from gputui.probe import probe_thread, sockets
from gputui.probe.descriptors import NotOursError
from gputui.protocol import places

TYPE_CHECKING = False  # `typing` costs more to import than all of this
if TYPE_CHECKING:
    from gputui.probe.server import Server

MAX_MARKS = 256
MAX_LABEL = 200
MAX_ERROR = 2000
_STOP_WITHIN_S = 0.5
_BACK_OFF_MS = 1000


class _Stop:
    """Each thread has its own, so that a late thread that was asked to stop does not stop the next one."""

    is_asked = False


class _Running:
    """A probe that runs: its socket, the thread that serves it, and everything that ends with it."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.listener = sockets.listen()
        self.waker = probe_thread.Waker()
        self.server: Server | None = None
        self._stop = _Stop()
        self._thread_id: int | None = None
        self._thread_ident: int | None = None
        self._finished = _thread.allocate_lock()

    def serve(self) -> None:
        """Start the thread; raises RuntimeError if the system or the interpreter allows no more threads."""
        self._stop = _Stop()
        is_first = self._finished.acquire(blocking=False)  # each thread holds this lock for as long as it runs
        try:
            _thread.start_new_thread(self._serve, (self._stop, is_first))
        except RuntimeError:
            if is_first:
                self._finished.release()
            raise

    def pause(self) -> bool:
        """End the thread, but keep the socket and the viewers; returns whether it has ended within `_STOP_WITHIN_S`."""
        self._stop.is_asked = True
        if not self.waker.wake():
            places.is_dead(self.listener.path)  # connects to the socket, which wakes the thread as well
        has_ended = self._finished.acquire(timeout=_STOP_WITHIN_S)
        if has_ended:
            self._finished.release()
            self._wait_until_gone()
        return has_ended

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

    def _serve(self, stop: _Stop, is_first: bool) -> None:  # noqa: FBT001 (`start_new_thread` passes positional arguments)
        if not is_first:
            self._finished.acquire()
        try:
            self._thread_id, self._thread_ident = _thread.get_native_id(), _thread.get_ident()
            probe_thread.leave_signals_to_the_program()
            while not stop.is_asked:
                self._serve_once(stop)
        except Exception as error:  # noqa: BLE001 (an error of the probe must not disturb somebody's training job)
            if _running is self:  # otherwise `stop` did not wait for this thread, and another probe may run by now
                _give_up(f"off: {self._cause(error)}")
        finally:
            self._finished.release()

    def _cause(self, error: Exception) -> str:
        """Why this thread ends: closed descriptors, if they are closed, else the error itself."""
        try:
            self.check()
        except NotOursError as closed:
            _forget_cached_folders()
            return str(closed)
        if isinstance(error, OSError) and error.errno == EBADF:  # the descriptor of a viewer's socket
            return str(NotOursError())
        return f"{type(error).__name__}: {error}"

    def _serve_once(self, stop: _Stop) -> None:
        if self.server is None or not self.server.is_busy:
            self._wait_for_a_viewer()
        if stop.is_asked:
            return
        self.check()
        if self.server is None:
            try:
                from gputui.probe.server import Server
            except OSError:  # the program has no descriptor left to read the module with, so the viewer has to wait
                self._back_off()
                return
            self.server = Server(self.listener, self.waker, _marks, _note)
        self.server.run(stop)

    def _wait_for_a_viewer(self) -> None:
        self.check()
        waiting = poll()
        waiting.register(self.listener.fileno(), POLLIN)
        waiting.register(self.waker.fileno(), POLLIN)
        waiting.poll()  # without a time limit: the thread never wakes up while nobody is attached

    def _back_off(self) -> None:
        waiting = poll()
        waiting.register(self.waker.fileno(), POLLIN)
        waiting.poll(_BACK_OFF_MS)

    def _wait_until_gone(self) -> None:
        """Wait until neither the interpreter nor the kernel knows the thread any more, a tenth of a second at most.

        Python 3.12 and newer count the kernel's threads at a fork, and warn. And a thread that still runs Python when
        the interpreter ends is killed by means of a library (libgcc_s) that cannot be found in a chroot, which aborts
        the program; as a chroot may have no /proc either, the interpreter is asked as well.
        """
        for _ in range(1000):
            runs_python = self._thread_ident in sys._current_frames()
            if not runs_python and not os.path.exists(f"/proc/self/task/{self._thread_id}"):
                return
            sleep(0.0001)


_running: _Running | None = None
_is_forked = False
_is_hooked = False
_reason = "not started"
_marks: list[tuple[int, float, str]] = []
_mark_numbers = count(1)


def start() -> None:
    """Open the socket and wait for viewers, unless the probe runs already. Never raises: `status()` has the outcome."""
    global _running, _is_forked, _reason  # noqa: PLW0603 (there is one probe in a process, as there is one PID)
    _is_forked = False
    if _running is not None:
        return
    refusal = _refusal()
    if refusal:
        _reason = f"off: {refusal}"
        return
    _hook()
    try:
        _running = _Running()
        _running.serve()
    except (OSError, RuntimeError) as error:
        _give_up(f"off: {error}")


def stop() -> None:
    """Disconnect viewers, close the socket and remove its file; harmless if no probe runs."""
    _stop(None)


def _exit() -> None:
    """At the end of the interpreter, which has stored an uncaught exception by then."""
    error = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)  # at a prompt it may be an old one
    _stop("" if error is None else _words_of(error))


def _words_of(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:MAX_ERROR].rstrip(": ")
    except Exception:  # noqa: BLE001 (somebody else's __str__)
        return type(error).__name__


def _stop(error: str | None) -> None:
    global _is_forked  # noqa: PLW0603
    _is_forked = False
    if _running is not None:
        if _running.pause() and _running.server is not None:
            _running.server.say_last(error)  # after an out-of-memory error, no other counters would follow
        _give_up("stopped")


def status() -> str:
    """The path of the socket that viewers connect to, or why there is none."""
    return _running.listener.path if _running is not None else _reason


def mark(label: str) -> None:
    """Name this moment for viewers; in a forked child this also starts the child's own probe."""
    if _is_forked:
        start()
    _note(label)
    if _running is not None and _running.server is not None:
        _running.waker.wake()


def _refusal() -> str:
    """Why the probe must stay off in this process, "" if it need not."""
    if os.environ.get(environment.PROBE) == "0":
        return f"{environment.PROBE} is 0"
    if "t" in getattr(sys, "abiflags", ""):
        return "this is a free-threaded Python, whose threads go on during a look: use the ordinary build"
    if _is_subinterpreter():
        return "this is a subinterpreter: the main interpreter's probe serves the process"
    return ""


def _is_subinterpreter() -> bool:
    try:
        import _interpreters as interpreters  # type: ignore[import-not-found]  # Python 3.13 and newer
    except ImportError:
        try:
            import _xxsubinterpreters as interpreters  # type: ignore[import-not-found]
        except ImportError:
            return False
    return bool(interpreters.get_current() != interpreters.get_main())


def _note(label: str) -> None:
    _marks.append((next(_mark_numbers), time(), str(label)[:MAX_LABEL]))
    del _marks[:-MAX_MARKS]


def _forget_cached_folders() -> None:
    """Have the import system list its folders again: one whose descriptor was closed meanwhile is cached as empty."""
    for finder in list(sys.path_importer_cache.values()):
        if finder is not None and hasattr(finder, "invalidate_caches"):
            finder.invalidate_caches()


def _give_up(reason: str) -> None:
    global _running, _reason
    given_up, _running, _reason = _running, None, reason
    if given_up is not None:
        if given_up.pid == os.getpid():  # after a fork that ran no hooks, the file is the parent's
            sockets.remove(given_up.listener.path)
        given_up.close()


def _hook() -> None:
    global _is_hooked  # noqa: PLW0603
    if not _is_hooked:
        _is_hooked = True
        os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_close_in_child)
        atexit.register(_exit)


def _before_fork() -> None:
    running = _running
    if running is not None:
        running.pause()
        try:
            running.check()
        except NotOursError as error:
            _give_up(f"off: {error}")


def _after_fork() -> None:
    if _running is not None:
        try:
            _running.serve()
        except RuntimeError as error:
            _give_up(f"off: {error}")


def _close_in_child() -> None:
    """In a forked child: close the copies of the parent's sockets; the parent alone goes on serving its viewers."""
    global _running, _is_forked, _reason  # noqa: PLW0603
    if _running is not None:
        parent, _running, _reason = _running, None, "forked: gputui.probe.start() or mark() starts a probe here"
        _is_forked = True
        parent.close()
        _marks.clear()

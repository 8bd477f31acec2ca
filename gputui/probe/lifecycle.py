"""Start, stop, fork and exit: one thread, blocked without a time limit until a viewer comes.

Everything a viewer needs beyond the open socket is imported when the first one connects, in the probe's thread: most
programs are never looked at. The thread is started below `threading`, so that a program which joins or counts its
threads finds its own only.
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
_REST_MS = 1000


class _Stop:
    """Asked of one thread, and not of the one that follows it."""

    is_asked = False


class _Running:
    """An open socket with the thread that serves it, and all that goes away with it."""

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
        """Start the thread; raises RuntimeError where the system or the interpreter gives none any more."""
        self._stop = _Stop()
        is_first = self._finished.acquire(blocking=False)  # held by a thread for as long as it runs
        try:
            _thread.start_new_thread(self._serve, (self._stop, is_first))
        except RuntimeError:
            if is_first:
                self._finished.release()
            raise

    def pause(self) -> bool:
        """End the thread and wait for its end, within limits; the socket and its viewers stay. Whether it has ended."""
        self._stop.is_asked = True
        if not self.waker.wake():
            places.is_dead(self.listener.path)  # to connect wakes it as well
        has_ended = self._finished.acquire(timeout=_STOP_WITHIN_S)
        if has_ended:
            self._finished.release()
            self._wait_for_the_system()
        return has_ended

    def check(self) -> None:
        """Raise NotOursError where the program has closed our descriptors."""
        self.listener.check()
        self.waker.check()

    def close(self) -> None:
        """Close every descriptor that is ours; the socket's file stays."""
        self.listener.close()
        self.waker.close()
        if self.server is not None:
            self.server.close()

    def _serve(self, stop: _Stop, is_first: bool) -> None:  # noqa: FBT001 (a thread is started with positions)
        if not is_first:
            self._finished.acquire()
        try:
            self._thread_id, self._thread_ident = _thread.get_native_id(), _thread.get_ident()
            probe_thread.leave_signals_to_the_program()
            while not stop.is_asked:
                self._serve_once(stop)
        except Exception as error:  # noqa: BLE001 (what is wrong in here must not show in somebody's training job)
            if _running is self:  # `stop` may not have waited for the end of this thread, and another probe run by now
                _give_up(f"off: {self._cause(error)}")
        finally:
            self._finished.release()

    def _cause(self, error: Exception) -> str:
        """Why this thread ends; whatever went wrong once our descriptors were closed went wrong because of that."""
        try:
            self.check()
        except NotOursError as closed:
            _read_folders_again()
            return str(closed)
        if isinstance(error, OSError) and error.errno == EBADF:  # a viewer's, closed before it was used
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
            except OSError:  # the program has no descriptor left to read it with: the viewer waits
                self._rest()
                return
            self.server = Server(self.listener, self.waker, _marks, _note)
        self.server.run(stop)

    def _wait_for_a_viewer(self) -> None:
        self.check()
        waiting = poll()
        waiting.register(self.listener.fileno(), POLLIN)
        waiting.register(self.waker.fileno(), POLLIN)
        waiting.poll()  # without a limit: nothing runs in here while nobody looks

    def _rest(self) -> None:
        waiting = poll()
        waiting.register(self.waker.fileno(), POLLIN)
        waiting.poll(_REST_MS)

    def _wait_for_the_system(self) -> None:
        # Python 3.12 and newer count the system's threads at a fork, and warn: the last steps of ours are awaited. At
        # the end of the interpreter a thread that still runs Python is killed by a library which, in a chroot, is not
        # found, and then the program with it: /proc is not there either, so the interpreter is asked as well.
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
    """Open the socket and wait for viewers; harmless where that was done. Never raises: `status()` tells."""
    global _running, _is_forked, _reason  # noqa: PLW0603 (there is one probe in a process, as there is one PID)
    _is_forked = False
    if _running is not None:
        return
    refused = _refusal()
    if refused:
        _reason = f"off: {refused}"
        return
    _hook()
    try:
        _running = _Running()
        _running.serve()
    except (OSError, RuntimeError) as error:
        _give_up(f"off: {error}")


def stop() -> None:
    """Close the socket, let viewers go and remove the socket's file; harmless where nothing runs."""
    _stop(None)


def _exit() -> None:
    """The interpreter ends; an exception that nobody caught is known by then."""
    error = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)  # at a prompt, it may be any old one
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
            _running.server.say_last(error)  # an uncaught out-of-memory error is over before the next counters are due
        _give_up("stopped")


def status() -> str:
    """Where this process can be attached to (a socket's path), or why it cannot."""
    return _running.listener.path if _running is not None else _reason


def mark(label: str) -> None:
    """Name this moment for those who look; in a forked child it starts the child's own probe."""
    if _is_forked:
        start()
    _note(label)
    if _running is not None and _running.server is not None:
        _running.waker.wake()


def _refusal() -> str:
    """Why there is to be no probe here, "" where there may be one."""
    if os.environ.get("GPUTUI_PROBE") == "0":
        return "GPUTUI_PROBE is 0"
    if "t" in getattr(sys, "abiflags", ""):
        return "this is a free-threaded Python, whose threads go on during a look: use the ordinary build"
    if _is_subinterpreter():
        return "this is a subinterpreter: the probe of the main one answers for the process"
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


def _read_folders_again() -> None:
    """Forget what is kept of the folders of modules: one that was replaced while it was read is kept as empty."""
    for finder in list(sys.path_importer_cache.values()):
        if finder is not None and hasattr(finder, "invalidate_caches"):
            finder.invalidate_caches()


def _give_up(reason: str) -> None:
    global _running, _reason
    gone, _running, _reason = _running, None, reason
    if gone is not None:
        if gone.pid == os.getpid():  # a fork that ran no hooks shares the file with its parent
            sockets.remove(gone.listener.path)
        gone.close()


def _hook() -> None:
    global _is_hooked  # noqa: PLW0603
    if not _is_hooked:
        _is_hooked = True
        os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_forget)
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


def _forget() -> None:
    """In a forked child: close what belongs to the parent, which goes on answering alone."""
    global _running, _is_forked, _reason  # noqa: PLW0603
    if _running is not None:
        gone, _running, _reason = _running, None, "forked: a probe starts here with start() or mark()"
        _is_forked = True
        gone.close()
        _marks.clear()

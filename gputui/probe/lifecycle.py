"""Starts and stops the process's one probe, pauses it for forks, ends it at exit, and keeps the program's marks."""

from __future__ import annotations

import atexit
import os
import sys
from itertools import count

from gputui import environment
from gputui.probe import permission
from gputui.probe.guards.boundary import LIFE, PARTS, words_of
from gputui.probe.guards.descriptors import NotOursError
from gputui.probe.guards.interpreter_settings import settings
from gputui.probe.guards.originals import RLock, get_ident, wall_clock
from gputui.probe.guards.thread_numbers import note_first_thread, note_main_thread
from gputui.probe.running import Running
from gputui.probe.viewers import sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MAX_MARKS = 256
MAX_LABEL = 200


_running: Running | None = None
_ended: Running | None = None  # the last one given up: its thread may still be closing its sockets
_is_forked = False
_is_hooked = False
_fork_lock = RLock()
"""Taken in the hooks before and after a fork: several threads may fork at the same time."""
_forking: set[int] = set()
"""The threads that are between the hooks before and after a fork."""
_reason = "not started"
_marks: list[tuple[int, float, str]] = []
_mark_numbers = count(1)


def start() -> None:
    """Open the socket and wait for viewers, unless the probe runs already. Never raises: `status()` has the outcome."""
    _enter(_start)


def _enter(step: Callable[..., object], *arguments: object) -> None:
    """Call `step` at the boundary `LIFE`; if an exception of the probe's own ends it, the probe is off."""
    failures = LIFE.failures
    LIFE.enter(step, *arguments)
    if LIFE.failures > failures:
        LIFE.enter(_give_up, f"off: {LIFE.words}")


def _start() -> None:
    global _running, _is_forked, _reason  # noqa: PLW0603 (there is one probe in a process, as there is one PID)
    _is_forked = False
    if _running is not None and _running.is_ending:
        _running.wait_for_end()
    if _running is not None:
        return
    refusal = permission.refusal()
    if refusal:
        _reason = f"off: {refusal}"
        return
    note_first_thread()
    _hook()
    _arm_black_box()
    try:
        _running = Running(_marks, _note, _end_by_itself)
        _running.serve()
    except (OSError, RuntimeError) as error:
        _give_up(f"off: {error}")


def leave_when_alone(linger_s: float) -> None:
    """Have the probe stop once nobody has been attached for `linger_s` seconds."""
    running = _running
    if running is not None:
        running.leave_when_alone(linger_s)


def stop() -> None:
    """Disconnect viewers, close the socket and remove its file; harmless if no probe runs."""
    _enter(_stop, None)


def _exit() -> None:
    """At exit: the interpreter has stored an uncaught exception in `sys.last_value` by then."""
    error = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)  # at a prompt it may be an old one
    _stop("" if error is None else words_of(error))


def _stop(error: str | None) -> None:
    global _is_forked  # noqa: PLW0603
    _is_forked = False
    if _running is not None:
        if _running.pause() and _running.server is not None:
            _running.server.say_last(error)  # sends counters, too: after an out-of-memory error, no others would follow
        _give_up("stopped")


def status() -> str:
    """The path of the socket that viewers connect to, or why there is none."""
    return _running.listener.path if _running is not None else _reason


def mark(label: str) -> None:
    """Name this moment for viewers; in a forked child this also starts the child's own probe."""
    _enter(_mark, str(label))


def _mark(label: str) -> None:
    if _is_forked:
        _start()
    _note(label)
    if _running is not None and _running.server is not None:
        _running.waker.wake()


def _note(label: str) -> None:
    _marks.append((next(_mark_numbers), wall_clock(), label[:MAX_LABEL]))
    del _marks[:-MAX_MARKS]


def _give_up(reason: str) -> None:
    global _running, _ended, _reason
    given_up, _reason = _running, reason
    if given_up is None:
        return
    try:
        given_up.is_ending = True  # so `_start` waits: the next probe's socket file has the same path
        if given_up.pid == os.getpid():  # after a fork that ran no hooks, the file is the parent's
            sockets.remove(given_up.listener.path)
    finally:
        _ended, _running = given_up, None
        given_up.close()


def _end_by_itself(running: Running, reason: str) -> None:
    """Called in a probe's thread as it ends. If `stop` did not wait for that thread, another probe may run by now."""
    if _running is running:
        if running.is_ending and running.server is not None:
            running.server.say_last(None)
        _give_up(reason)


def _hook() -> None:
    global _is_hooked  # noqa: PLW0603
    if not _is_hooked:
        _is_hooked = True
        os.register_at_fork(before=before_fork, after_in_parent=_after_fork, after_in_child=_close_in_child)
        atexit.register(_enter, _exit)


def _arm_black_box() -> None:
    folder = os.environ.get(environment.BLACK_BOX)
    if folder:
        from gputui.probe.black_box import observer

        observer.arm(os.path.abspath(folder))


def before_fork() -> None:
    """Pause the probe until the last fork under way is over; harmless if it is paused already."""
    _enter(_pause)


def _pause() -> None:
    global _ended
    with _fork_lock:
        _forking.add(get_ident())
        ended, _ended = _ended, None
        if ended is not None:
            ended.pause()  # otherwise the child would inherit a socket whose viewer waits for it to be closed
        running = _running
        if running is not None:
            running.pause()
            try:
                running.check()
            except NotOursError as error:
                if _running is running:  # it may have ended meanwhile
                    _give_up(f"off: {error}")


def _after_fork() -> None:
    _enter(_go_on)


def _go_on() -> None:
    with _fork_lock:
        _forking.discard(get_ident())
        if _running is not None and not _forking:
            try:
                _running.serve_again()
            except RuntimeError as error:
                _give_up(f"off: {error}")


def _close_in_child() -> None:
    """In a forked child: close the copies of the parent's sockets; the parent alone goes on serving its viewers."""
    _enter(_close)


def _close() -> None:
    global _running, _is_forked, _reason, _fork_lock  # noqa: PLW0603
    _fork_lock = RLock()  # another thread of the parent may have held it at the fork
    note_main_thread()
    for part in PARTS:
        part.reset()
    _forking.clear()
    settings.after_fork_in_child()
    held_signals = sys.modules.get("gputui.probe.main_thread.held_signals")
    if held_signals is not None:
        held_signals.after_fork_in_child()
    if _running is not None:
        parent, _running, _reason = _running, None, "forked: gputui.probe.start() or mark() starts a probe here"
        _is_forked = True
        parent.close()
        _marks.clear()

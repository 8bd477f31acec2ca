"""Puts the probe into a process that has none, and waits until it answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from gputui.errors import GputuiError
from gputui.inject import checks
from gputui.inject.checks import Target
from gputui.inject.loading import Loading, Phase, Progress, load, refused
from gputui.inject.refusals import Refused
from gputui.inject.tracer_process import HelperError
from gputui.sources.at_once import at_once
from gputui.sources.probe import listing
from gputui.sources.probe.main_thread_place import Wait, place_of_main_thread, wait_of_main_thread
from gputui.sources.processes.ranks import place_in_job
from gputui.sources.procfs import ProcFs

_POLL_S = 0.02
_KEPT_AFTER_S = 0.7
"""How far apart two readings of a wait are: the C library holds none of its locks for so long."""
_EXAMINED_WITHIN_S = 60.0
"""How long a check may take: many times what it takes on a busy machine."""
_SAY_AFTER_S = 2.0
_SAY_EVERY_S = 30.0
BEHIND = "If its job stands still, this tells which rank it waits for, without a probe: gputui attach {} --behind"


class CannotLoadError(GputuiError):
    """The probe cannot be put into a process; the remedy names the commands that help."""


def check(pid: int) -> Target:
    """Check a process without touching it; raises CannotLoadError."""
    try:
        (target,) = at_once(checks.examine, [pid], time.monotonic() + _EXAMINED_WITHIN_S)
    except Refused as refusal:
        raise _sentences(refusal) from refusal
    if target is None:
        cause = f"The memory of process {pid} cannot be read within {_EXAMINED_WITHIN_S:g} s."
        raise CannotLoadError(cause, "It may lie on a file system that does not answer.")
    return target


def put_probe_in(pid: int, tell: Callable[[str], object], limit_s: float | None = None) -> None:
    """Put the probe into a process and wait until it answers; raises CannotLoadError, or an error of the connection.

    `tell` is called with a sentence about where the main thread is while it does not come back to Python. After
    `limit_s`, or at KeyboardInterrupt, the probe is withdrawn.
    """
    attempt = _Attempt(check(pid))
    try:
        _wait(attempt, tell, limit_s)
    except (HelperError, OSError) as error:  # it has ended, for example, or gputui has no file descriptor left
        attempt.loading.withdraw()
        raise _sentences(refused(pid, error)) from error
    except BaseException:
        attempt.loading.withdraw()
        raise


class _Attempt:
    """An attempt to load the probe: by the main thread, or past it if that thread waits for long.

    To go past it, the program is stopped. If that is refused, the main thread does it: Python 3.14 needs no stop then.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._is_past = _is_kept_in_lock(target.facts.pid)
        self.loading = self._past(is_in_lock=True) if self._is_past else self._by_main_thread()
        self._wait: Wait | None = None
        self._check_at = time.monotonic() + _KEPT_AFTER_S

    def check_wait(self) -> None:
        """Go past the main thread once it was found twice in the same wait; raises CannotLoadError."""
        now = time.monotonic()
        if self._is_past or now < self._check_at:
            return
        before, self._wait = self._wait, wait_of_main_thread(self.loading.pid)
        self._check_at = now + _KEPT_AFTER_S
        if self._wait is not None and self._wait == before:
            self.loading.withdraw()
            self._is_past = True
            self.loading = self._past(is_in_lock=self._wait.is_for_lock)

    def _past(self, *, is_in_lock: bool) -> Loading:
        try:
            return load(self._target, is_in_lock=is_in_lock, is_asleep=not is_in_lock)
        except Refused:
            return self._by_main_thread()

    def _by_main_thread(self) -> Loading:
        try:
            return load(self._target)
        except Refused as refusal:
            raise _sentences(refusal) from refusal


def _is_kept_in_lock(pid: int) -> bool:
    """Whether the main thread waits for the same lock for `_KEPT_AFTER_S`.

    A call queued for such a thread would stay in the interpreter's queue of 32 until the thread comes back.
    """
    first = wait_of_main_thread(pid)
    if first is None or not first.is_for_lock:
        return False
    deadline = time.monotonic() + _KEPT_AFTER_S
    while time.monotonic() < deadline:
        time.sleep(_POLL_S)
        if wait_of_main_thread(pid) != first:
            return False
    return True


def _wait(attempt: _Attempt, tell: Callable[[str], object], limit_s: float | None) -> None:
    began = time.monotonic()
    say_at = began + _SAY_AFTER_S
    while True:
        loading = attempt.loading
        progress = loading.progress()
        if progress.phase is Phase.LOADED:
            _greet(loading.pid)
            return
        if progress.phase is Phase.FAILED:
            cause = f"The probe could not start in process {loading.pid}: {progress.trouble}."
            raise CannotLoadError(cause)
        if progress.phase is Phase.WAITING:
            attempt.check_wait()
        now = time.monotonic()
        if limit_s is not None and now > began + limit_s:
            cause = f"Process {loading.pid} did not load the probe within {limit_s:.0f} s: {_place(loading, progress)}"
            raise CannotLoadError(cause, f"Wait for it on the screens: gputui attach {loading.pid}.")
        if now > say_at:
            tell(f"Waiting for process {loading.pid}: {_place(loading, progress)}")
            say_at = now + _SAY_EVERY_S
        time.sleep(_POLL_S)


def _greet(pid: int) -> None:
    try:
        listing.attach(pid).close()
    except listing.NoProbeError as error:
        cause = f"The probe was put into process {pid}, and is not there."
        raise CannotLoadError(cause, "An audit hook of the program's may forbid its code to be compiled.") from error


def _place(loading: Loading, progress: Progress) -> str:
    words = f"{progress.phase.value}. {place_of_main_thread(loading.pid, loading.stopped_at)}".rstrip()
    return f"{words} {BEHIND.format(loading.pid)}" if _is_rank(loading.pid) else words


def _is_rank(pid: int) -> bool:
    """Whether a process is a rank of a job with several, which may wait for another rank."""
    with suppress(OSError):
        place = place_in_job(ProcFs().variables(pid))
        return place is not None and place.world_size > 1
    return False


def _sentences(refusal: Refused) -> CannotLoadError:
    file = f" [{refusal.file}]" if refusal.file else ""
    remedies = refusal.remedies
    if not remedies:
        return CannotLoadError(refusal.cause + file)
    first = "What helps:" if len(remedies) > 1 else "Remedy:"
    return CannotLoadError(refusal.cause + file, " | ".join([f"{first} {remedies[0]}", *remedies[1:]]))

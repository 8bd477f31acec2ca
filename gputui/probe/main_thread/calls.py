"""Calls in the program's main thread, one at a time, with the program running in between.

All calls in the main thread (counters, looks, actions) go through one `MainThread`. At most one entry is in the
interpreter's queue. The next is added only after the main thread has left the last one and the probe's thread has
waited for as long as that took. So the program makes progress however slow a call is and however often viewers ask. The
clock alone does not say that the program has run: while the probe's thread works, it may hold the interpreter's lock,
and a busy machine may give the main thread no processor. In Python 3.11, a function that is traced does not even begin
while a signal, a pending call or a request for the lock is waiting.
"""

from __future__ import annotations

from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Callable, TypeVar, cast

from gputui.probe.guards.boundary import MAIN_THREAD
from gputui.probe.guards.originals import perf_counter
from gputui.probe.guards.thread_numbers import main_processor_s
from gputui.probe.main_thread import pending_call
from gputui.probe.main_thread.activity import (
    ABSENT_AFTER_S,
    BUSY_S,
    JAILED,
    is_in_backward,
    is_jailed,
    is_waiting,
    may_want_to_run,
    place,
)

Result = TypeVar("Result")
Entry = Callable[[], None]

_CHECK_AGAIN_S = 0.005
"""When to check again whether the main thread has left an entry; that takes longer only under a profiler."""
_LONGEST_CHECK_S = 1.0
LOST_AFTER_S = 2.0
"""How long an entry waits before it may count as lost: a main thread that runs Python comes to it at once."""
PATIENCE = 10
"""How many times the last call's duration to wait for a main thread that does not use the processor."""
MAX_LOST = 8
"""How many entries in a row may count as lost: any that are not lost after all fill the interpreter's queue."""


class MainThread:
    """The main thread, shared by all its callers. `wake` is called in the main thread when a call has ended.

    All methods are called in the probe's thread, but for `_run`.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._pending = pending_call.PendingCall()
        self._line: list[Entry] = []
        """The entries that wait for their turn."""
        self._current: Entry | None = None
        """The entry in the interpreter's queue."""
        self._queued_at = 0.0
        self._seen_at: tuple[int, int] | None = None
        """Where the absent main thread was at the last check: if it has moved on since, the entry is lost."""
        self._lost = 0
        self._is_running = False
        self._stopped_s = 0.0
        """For how long the last call has stopped the program."""
        self._stopped_until = 0.0
        """When (`perf_counter`) that call ended."""
        self._let_run_s = 0.0
        """For how long the probe's thread has waited since then, so that the program could run."""
        self._processor_s = self._stopped_processor_s = 0.0
        """The main thread's processor time when that call ended, and how much of it the call has used."""

    @property
    def is_free(self) -> bool:
        """Whether the program has run for as long as the last call stopped it."""
        return not self._is_inside and self._let_run_s >= self._stopped_s and self._has_had_its_turn

    @property
    def _is_inside(self) -> bool:
        """Whether the main thread is in an entry. `_is_running` alone may be left True by an entry that has failed."""
        return self._is_running and not self._pending.is_left

    @property
    def _has_had_its_turn(self) -> bool:
        """Whether the main thread has used the processor since the last call for as long as that call did.

        On a busy machine it may not have come to run. It need not run if it waits for something outside the process; as
        that is not always known, `PATIENCE` times the call's duration is enough, too.
        """
        if self._let_run_s >= PATIENCE * self._stopped_s:
            return True
        return main_processor_s() - self._processor_s >= self._stopped_processor_s or not may_want_to_run()

    @property
    def absent_for_s(self) -> float:
        """For how long the main thread has not come back to Python although it was asked to; 0.0 if nothing asks it."""
        return perf_counter() - self._queued_at if self._pending.is_queued else 0.0

    @property
    def check_at(self) -> float:
        """When (`perf_counter`) there may be something to do, unless the wake function is called first.

        That is as soon as the program has had its time: at a later check another caller may be due, too, and go first.
        """
        now = perf_counter()
        if self._is_inside:
            return now + _LONGEST_CHECK_S
        is_absent = self.absent_for_s > ABSENT_AFTER_S
        if self._pending.is_queued and (not is_absent or self.is_free):
            return (now if is_absent else self._queued_at) + ABSENT_AFTER_S
        left_s = self._stopped_s - self._let_run_s
        return now + max(left_s if left_s > 0 else self._stopped_s, _CHECK_AGAIN_S)

    def note_wait(self, began: float) -> None:
        """Note that the probe's thread has waited from `began` (`perf_counter`) until now: the program could run."""
        self._let_run_s += max(0.0, perf_counter() - max(began, self._stopped_until))

    def enter(self, entry: Entry) -> None:
        """Have the main thread run `entry` once those before it have been run."""
        self._line.append(entry)
        self.advance()

    def withdraw(self, entry: Entry) -> bool:
        """Take `entry` back; False if it has begun."""
        if entry in self._line:
            self._line.remove(entry)
            return True
        if entry is not self._current:
            return False
        self._current = None
        return self._pending.withdraw()

    def has_ended(self, entry: Entry) -> bool:
        """Whether the main thread has taken `entry` and left it: an exception of the program may have ended it early.

        A signal handler can raise one before the first statement of `entry`, which then knows nothing of it.
        """
        is_waiting = entry in self._line or (entry is self._current and self._pending.has_function)
        return not is_waiting and not self._is_inside and self._pending.is_left

    def advance(self) -> None:
        """Hand the next entry to the interpreter if it is time for that."""
        if not self._line:
            return
        if self._pending.is_queued and self._is_lost():
            self._pending.forget()
        if self._pending.is_queued:
            if not self._pending.has_function:  # it was withdrawn: its entry in the queue can run the next
                self._hand_over()
        elif self.is_free and self._pending.is_left:
            self._queued_at = perf_counter()
            self._hand_over()

    def _is_lost(self) -> bool:
        """Whether the main thread runs Python and has passed over the entry."""
        if self.absent_for_s < LOST_AFTER_S:
            self._seen_at = None
            return False
        seen_at, self._seen_at = self._seen_at, place()
        is_lost = seen_at not in (None, self._seen_at) and self._lost < MAX_LOST
        self._lost += is_lost
        return is_lost

    def _hand_over(self) -> None:
        entry = self._current = self._line[0]
        if self._pending.request(lambda: self._run(entry)):
            del self._line[0]
        else:  # the interpreter's queue is full of other libraries' entries
            self._pending.withdraw()

    def run_here(self, function: Callable[[], Result]) -> Result:
        """Run `function` in this thread; the program's other threads are stopped as by a call in the main thread."""
        began, processor_began_s = perf_counter(), main_processor_s()
        try:
            return function()
        finally:
            self._note_stop(began, processor_began_s)

    def _run(self, entry: Entry) -> None:
        began, processor_began_s = perf_counter(), main_processor_s()
        self._is_running, self._current = True, None
        self._lost = 0  # the interpreter empties its queue in one go, so entries before this one are gone
        try:
            entry()
        finally:
            self._is_running = False  # first: a signal handler of the program may raise an exception after each call
            try:
                self._note_stop(began, processor_began_s)
            finally:
                self._wake()

    def _note_stop(self, began: float, processor_began_s: float) -> None:
        self._stopped_until = now = perf_counter()
        self._stopped_s, self._let_run_s = now - began, 0.0
        self._processor_s = main_processor_s()
        self._stopped_processor_s = self._processor_s - processor_began_s


if TYPE_CHECKING:
    from typing import Generic
else:  # Python 3.12 and newer would look up `typing` in `sys.modules`, where it may be the program's
    Generic = {Result: object}


class MainThreadCall(Generic[Result]):
    """One call at a time, with a deadline: `finished` returns its result later, or another result in its place."""

    def __init__(self, main_thread: MainThread) -> None:
        self._main_thread = main_thread
        self._result: Result | None = None
        self._entry: Entry | None = None
        """What the main thread runs for the call under way."""
        self._without: Callable[[str], Result] | None = None
        """Makes a result without the call, given why it failed."""
        self._failures = 0
        """How many calls had failed before this one."""
        self._number = 0
        """The number of the call under way: a result of an earlier call, which was abandoned, is dropped."""
        self._asked_at = 0.0
        self._give_up_at = 0.0
        self._check_at = 0.0
        self._in_backward_s: float | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether there is a call whose result has not been fetched."""
        return self._entry is not None or self._result is not None

    @property
    def deadline(self) -> float | None:
        """When (`perf_counter`) to ask `finished` again at the latest, None if no call is under way."""
        if not self.is_under_way:
            return None
        return self._check_at

    def begin(
        self,
        function: Callable[[], Result],
        wait_s: float,
        without: Callable[[str], Result],
        *,
        in_backward_s: float | None = None,
    ) -> None:
        """Have `function` run soon; the result is `without(failure)` if it fails, or if nothing may be called.

        `failure` is a sentence, "" if a signal handler of the program has interrupted the function.

        After `wait_s`, `finished` calls `instead` in the probe's thread. If `in_backward_s` is given, `instead` does
        the same work and is called sooner: once the main thread is absent and waits for input, or is absent for
        `BUSY_S`; during a backward pass, no sooner than `in_backward_s` after now.
        """
        self._result, self._in_backward_s, self._asked_at = None, in_backward_s, perf_counter()
        self._give_up_at = self._asked_at + wait_s
        self._check_at = self._asked_at  # at once, as the main thread may be absent already

        self._number += 1
        if MAIN_THREAD.is_off:
            self.settle(without(MAIN_THREAD.problem))
            return
        if is_jailed():
            self.settle(without(JAILED))
            return
        self._without, self._failures = without, MAIN_THREAD.failures
        self._entry = partial(self._run, function, self._number)
        pending_call.keep_from_compiling(cast("FunctionType", pending_call.PendingCall.__bool__))
        self._main_thread.enter(self._entry)

    def settle(self, result: Result) -> None:
        """Set the result without the main thread."""
        self._result, self._check_at = result, perf_counter()

    def finished(self, instead: Callable[[], Result]) -> Result | None:
        """The result, once, or that of `instead()` if the main thread did not come in time; None until then."""
        if not self.is_under_way:
            return None
        self._main_thread.advance()
        has_ended = self._entry is not None and self._main_thread.has_ended(self._entry)
        if has_ended and self._result is None:  # in this order: the main thread may end the call meanwhile
            self._result = self._failed()
        if self._result is None and self._is_time_for_another() and self._withdraw():
            self._result = self._main_thread.run_here(instead)
        self._check_at = self._main_thread.check_at
        result = self._result
        if result is not None:
            self._result = self._entry = None
        return result

    def leave(self) -> None:
        """Drop a call that has not begun, and the result of one that has: no viewer waits for it any more."""
        self._withdraw()
        self._result = self._entry = None

    def _run(self, function: Callable[[], Result], number: int) -> None:
        result = function()
        if number == self._number and self._entry is not None:
            self._result = result

    def _failed(self) -> Result:
        assert self._without is not None
        return self._without(MAIN_THREAD.problem if MAIN_THREAD.failures > self._failures else "")

    def _withdraw(self) -> bool:
        return self._entry is not None and self._main_thread.withdraw(self._entry)

    def _is_time_for_another(self) -> bool:
        now, absent_for_s = perf_counter(), self._main_thread.absent_for_s
        if self._in_backward_s is None:
            return now >= self._give_up_at
        if not self._main_thread.is_free:
            return False
        if now >= self._give_up_at:
            return True
        if absent_for_s < ABSENT_AFTER_S:
            return False
        if is_in_backward():
            return absent_for_s >= BUSY_S and now >= self._asked_at + self._in_backward_s
        return absent_for_s >= BUSY_S or is_waiting()

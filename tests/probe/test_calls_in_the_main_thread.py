"""Calls in the program's main thread: when the next may be asked for, and what exceptions of the program do to them."""

from __future__ import annotations

import sys
from collections.abc import Collection
from itertools import count
from types import CodeType

import pytest

from gputui.probe.guards import boundary
from gputui.probe.main_thread import calls
from gputui.probe.main_thread.activity import ABSENT_AFTER_S, BUSY_S
from gputui.probe.main_thread.calls import MainThread, MainThreadCall
from gputui.probe.main_thread.pending_call import PendingCall

PROBE = "gputui.probe"
STOP_S = 1 / 128
"""Like all seconds here, an exact sum of powers of two."""


class Clock:
    """The time, and the main thread's processor time, as the test lets them pass."""

    def __init__(self) -> None:
        self.now_s, self.processor_s = 1000.0, 10.0

    def use(self, seconds: float) -> float:
        """Use the processor for some time; returns when that began."""
        began_s = self.now_s
        self.now_s += seconds
        self.processor_s += seconds
        return began_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(calls, "perf_counter", lambda: clock.now_s)
    monkeypatch.setattr(calls, "main_processor_s", lambda: clock.processor_s)
    return clock


@pytest.fixture
def stopped(clock: Clock) -> MainThread:
    """After an entry that has stopped the program."""
    main_thread = MainThread(lambda: None)
    main_thread.run_here(lambda: clock.use(STOP_S))
    return main_thread


def test_time_in_which_the_probes_thread_works_does_not_count(stopped, clock):
    clock.use(5 * STOP_S)
    assert not stopped.is_free
    assert stopped.check_at > clock.now_s


def test_the_program_runs_while_the_probes_thread_waits(stopped, clock):
    stopped.note_wait(clock.use(STOP_S))
    assert stopped.is_free


def test_a_wait_counts_from_the_end_of_the_entry(stopped, clock):
    clock.use(STOP_S / 2)
    stopped.note_wait(0.0)  # the probe's thread has waited since long before the main thread ran the entry
    assert stopped._let_run_s == STOP_S / 2
    assert not stopped.is_free


def test_waits_add_up(stopped, clock):
    waits = 0
    while not stopped.is_free:
        stopped.note_wait(clock.use(STOP_S / 4))
        waits += 1
    assert waits == 4


def test_a_look_has_its_turn_beside_counters_that_are_due_whenever_it_may_begin(clock, monkeypatch):
    """The main thread is absent, and several viewers ask for counters: each read stops the program for a moment."""
    monkeypatch.setattr(PendingCall, "_add", lambda _: True)
    main_thread = MainThread(lambda: None)
    counters: MainThreadCall[float] = MainThreadCall(main_thread)
    look: MainThreadCall[str] = MainThreadCall(main_thread)
    look.begin(lambda: "in the main thread", 1e6, str, in_backward_s=0.0)
    clock.use(BUSY_S)
    counters_at = clock.now_s
    for _ in range(8):
        if clock.now_s >= counters_at and not counters.is_under_way:
            counters.begin(lambda: 0.0, 1e6, float, in_backward_s=0.0)
            counters_at = clock.now_s + ABSENT_AFTER_S
        counters.finished(lambda: clock.use(STOP_S))
        if look.finished(lambda: "here"):
            return
        times = (counters_at, look.deadline, counters.deadline)
        main_thread.note_wait(clock.use(max(0.0, min(time for time in times if time is not None) - clock.now_s)))
    pytest.fail("the look has waited for eight rounds")


class InterruptionError(KeyboardInterrupt):
    """Raised by a signal handler of the program."""


class OwnError(Exception):
    """Raised by the probe."""


@pytest.fixture
def queued(monkeypatch) -> Queued:
    """A call that the interpreter has in its queue, which the test runs in its place."""
    monkeypatch.setattr(PendingCall, "_add", lambda _: True)
    boundary.MAIN_THREAD.reset()
    yield Queued()
    boundary.MAIN_THREAD.reset()


class Queued:
    def __init__(self) -> None:
        self.woken: list[bool] = []
        self.main_thread = MainThread(lambda: self.woken.append(True))
        self.call: MainThreadCall[str] = MainThreadCall(self.main_thread)
        self.call.begin(lambda: "result", 60.0, lambda failure: failure or "interrupted")

    def run_raising(self, error: type[BaseException], place: int, spared: Collection[CodeType] = ()) -> bool:
        """Run it, and raise this where Python could run a signal handler for the n-th time; whether it gets out.

        Python runs signal handlers when a function begins and when a function of C has returned.
        """
        places = count()

        def profile(frame, event, _argument):
            is_place = frame.f_globals["__name__"].startswith(PROBE) and event in ("call", "c_return")
            if is_place and frame.f_code not in spared and next(places) == place:
                raise error

        sys.setprofile(profile)
        try:
            bool(self.main_thread._pending)
        except error:
            return True
        finally:
            sys.setprofile(None)
        return False

    def finished(self) -> str | None:
        self.main_thread.note_wait(0.0)
        return self.call.finished(lambda: "instead")

    def next_result(self) -> str | None:
        """The result of the next call."""
        self.call.begin(lambda: "next", 60.0, lambda failure: failure or "interrupted")
        while self.main_thread._line:
            self.main_thread.note_wait(0.0)
            self.main_thread.advance()
        bool(self.main_thread._pending)
        return self.finished()


@pytest.mark.parametrize("place", range(28))
def test_an_exception_at_any_place_of_a_call_leaves_none_waiting_for_ever(place, queued):
    is_raised = queued.run_raising(InterruptionError, place)
    if queued.main_thread._pending.is_queued:  # lost: the probe notices that the main thread runs on without it
        return
    assert queued.finished() in ({"interrupted", "result"} if is_raised else {"result"})
    assert not queued.main_thread._is_inside
    assert queued.woken or is_raised
    assert queued.next_result() == "next"


@pytest.mark.parametrize("place", range(26))
def test_an_error_of_the_probes_own_at_any_place_of_a_call_stays_there(place, queued):
    assert not queued.run_raising(OwnError, place, BOUNDARY)
    if not queued.main_thread._pending.is_queued:
        result = queued.finished()
        assert result == "result" or "have failed: OwnError (" in result
        assert queued.next_result() == "next"


def test_a_false_result_that_comes_while_the_probes_thread_asks_for_it_is_no_failure(queued):
    call, main_thread = MainThreadCall(queued.main_thread), queued.main_thread
    bool(main_thread._pending)
    call.begin(dict, 60.0, lambda _: {"reason": "interrupted"})
    while main_thread._line:
        main_thread.note_wait(0.0)
        main_thread.advance()
    has_ended = main_thread.has_ended
    main_thread.has_ended = lambda entry: [bool(main_thread._pending), has_ended(entry)][1]
    assert call.finished(lambda: {"reason": "instead"}) == {}


BOUNDARY = (PendingCall.__bool__.__code__, boundary.Part.enter.__code__)
"""What stands outside of the boundary: these raise nothing by themselves."""


def test_calls_are_switched_off_after_the_second_failure_of_a_kind(queued):
    results = []
    for _ in range(3):
        queued.call.begin(lambda: {}["missing"], 60.0, lambda failure: failure)
        while queued.main_thread._line:
            queued.main_thread.note_wait(0.0)
            queued.main_thread.advance()
        bool(queued.main_thread._pending)
        results.append(queued.finished())
    place = "(calls.py:"
    assert all("have failed: KeyError: 'missing'" in result and place in result for result in results)
    assert ["switched off" in result for result in results] == [False, True, True]
    assert boundary.problems() == [results[-1]]

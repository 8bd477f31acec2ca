"""Calls in the program's main thread: when the next may be asked for, and what exceptions of the program do to them."""

import sys
from itertools import count
from pathlib import Path

import pytest

from gputui.probe import mainthread, mainthread_call
from gputui.probe.mainthread import PendingCall
from gputui.probe.mainthread_call import MainThread, MainThreadCall

PROBE = f"{Path(mainthread.__file__).parent}/"
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
    monkeypatch.setattr(mainthread_call, "perf_counter", lambda: clock.now_s)
    monkeypatch.setattr(mainthread_call, "processor_s", lambda: clock.processor_s)
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


class InterruptionError(Exception):
    """Raised by a signal handler of the program."""


@pytest.mark.parametrize("place", range(24))
def test_an_exception_at_any_place_of_a_call_leaves_none_waiting_for_ever(place, monkeypatch):
    """Python runs signal handlers when a function begins and when a function of C has returned."""
    woken: list[bool] = []
    main_thread = MainThread(lambda: woken.append(True))
    monkeypatch.setattr(PendingCall, "_add", lambda _: True)  # this test runs what the interpreter's queue would
    call: MainThreadCall[str] = MainThreadCall(main_thread)
    call.begin(lambda: "result", 60.0, "interrupted")
    places = count()

    def profile(frame, event, _argument):
        is_ours = frame.f_code.co_filename.startswith(PROBE)
        if is_ours and event in ("call", "c_return") and next(places) == place:
            raise InterruptionError

    is_raised = False
    sys.setprofile(profile)
    try:
        bool(main_thread._pending)
    except InterruptionError:
        is_raised = True
    finally:
        sys.setprofile(None)
    if main_thread._pending.is_queued:  # lost: the probe notices that the main thread runs on without it
        return
    main_thread.note_wait(0.0)
    assert call.finished(lambda: "instead") in ({"interrupted", "result"} if is_raised else {"result"})
    assert not main_thread._is_running
    assert woken or is_raised
    call.begin(lambda: "next", 60.0, "interrupted")
    while main_thread._line:
        main_thread.note_wait(0.0)
        main_thread.advance()
    bool(main_thread._pending)
    assert call.finished(lambda: "instead") == "next"

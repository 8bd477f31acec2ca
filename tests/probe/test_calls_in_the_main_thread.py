"""Calls in the program's main thread: when the next may be asked for, and what exceptions of the program do to them."""

import sys
from itertools import count
from pathlib import Path
from time import perf_counter

import pytest

from gputui.probe import mainthread
from gputui.probe.mainthread import PendingCall
from gputui.probe.mainthread_call import MainThread, MainThreadCall

PROBE = f"{Path(mainthread.__file__).parent}/"


def pass_time(seconds: float) -> float:
    """Use the processor for some time; returns when (`perf_counter`) it began."""
    began = perf_counter()
    while perf_counter() < began + seconds:
        continue
    return began


@pytest.fixture
def stopped() -> MainThread:
    """After an entry that has stopped the program."""
    main_thread = MainThread(lambda: None)
    main_thread.run_here(lambda: pass_time(0.01))
    return main_thread


def test_time_in_which_the_probes_thread_works_does_not_count(stopped):
    pass_time(0.05)
    assert not stopped.is_free
    assert stopped.check_at > perf_counter()


def test_the_program_runs_while_the_probes_thread_waits(stopped):
    stopped.note_wait(pass_time(stopped._stopped_s))
    assert stopped.is_free


def test_a_wait_counts_from_the_end_of_the_entry(stopped):
    stopped.note_wait(0.0)  # the probe's thread has waited since long before the main thread ran the entry
    assert stopped._let_run_s <= perf_counter() - stopped._stopped_until


def test_waits_add_up(stopped):
    waits = 0
    while not stopped.is_free:
        stopped.note_wait(pass_time(0.001))
        waits += 1
    assert waits > 1


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

"""Checks that Python's profilers and tracers see none of the probe's functions; no PyTorch is needed."""

import bdb
import cProfile
import signal
import sys
import threading
import time
from collections import Counter

from checks import check, run

from gputui.probe.main_thread.pending_call import PendingCall
from gputui.probe.main_thread.untraced import untraced
from gputui.probe.viewers.server import Server

CALLS = 50
OURS = ("gputui/probe/", "of_the_probe")


def of_the_probe():
    """What a pending call runs: Python functions, and functions of C."""
    return sorted(range(3), key=abs)


def is_ours(code):
    return any(mark in f"{code.co_filename} {code.co_name}" for mark in OURS)


class Asker:
    """Asks for pending calls in another thread, as the probe does, until the main thread has made enough of them."""

    def __init__(self):
        self.made = 0
        self.function = of_the_probe
        self._pending = PendingCall()
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self):
        self._thread.start()
        self._is_ready.wait()
        return self

    def __exit__(self, *_):
        self._thread.join()

    def _ask(self):
        untraced(self._ask_untraced)

    def _ask_untraced(self):
        self._is_ready.set()
        for number in range(CALLS):
            self._pending.request(self._call_of_the_probe)
            while self.made == number:
                time.sleep(0.0001)

    def _call_of_the_probe(self):
        self.made += 1
        self.function()


def step_of_the_program(number):
    return number + 1


def work(asker):
    """The program: returns the number of its steps."""
    steps = 0
    while asker.made < CALLS:
        steps = step_of_the_program(steps)
    return steps


def seen_by(switch_on, switch_off):
    """The codes and events that a profile or trace function was called with, and the number of the program's steps."""
    events = Counter()

    def record(frame, event, _argument):
        events[frame.f_code, event] += 1
        return record

    with Asker() as asker:
        switch_on(record)
        steps = work(asker)
        switch_off(None)
    return events, steps


def check_events(events, steps):
    assert [key for key in events if is_ours(key[0])] == []
    step = step_of_the_program.__code__
    assert steps > 0
    assert (events[step, "call"], events[step, "return"]) == (steps, steps)


@check
def a_profile_function_sees_the_program_only():
    check_events(*seen_by(sys.setprofile, sys.setprofile))


@check
def a_trace_function_sees_the_program_only():
    check_events(*seen_by(sys.settrace, sys.settrace))


@check
def a_profile_function_of_all_threads_sees_the_program_only():
    in_all_threads = getattr(threading, "setprofile_all_threads", threading.setprofile)  # Python 3.12
    events, _ = seen_by(in_all_threads, in_all_threads)
    threading.setprofile(None)
    sys.setprofile(None)
    assert [key for key in events if is_ours(key[0])] == []


def called(profile):
    """How often the profile has seen each Python function begin, by its code."""
    return {entry.code: entry.callcount for entry in profile.getstats() if not isinstance(entry.code, str)}


@check
def a_profile_function_of_the_probes_own_thread_sees_the_end_of_all_that_it_sees_begin():
    events = Counter()
    sys.setprofile(lambda frame, event, _argument: events.update([(frame.f_code, event)]))
    result = untraced(of_the_probe)
    sys.setprofile(None)
    assert result == [0, 1, 2]
    assert not any(code is of_the_probe.__code__ for code, _ in events)
    begun = Counter(code for code, event in events if event == "call")
    assert begun
    assert begun == Counter(code for code, event in events if event == "return")


class Rounds(Server):
    """The loop of the probe's own thread, which ends after some rounds."""

    def __init__(self, count):
        self.left = count

    def _round(self, _stop):
        self.left -= 1
        return self.left == 0


@check
def a_trace_function_of_the_probes_own_thread_sees_no_line_more_for_more_rounds():
    seen = []
    for count in (2, 50):
        lines = Counter()

        def record(frame, _event, _argument, lines=lines):
            lines[frame.f_code] += is_ours(frame.f_code)
            return record

        sys.settrace(record)
        Rounds(count).run(None)
        sys.settrace(None)
        seen.append(lines)
    assert seen[0] == seen[1]


@check
def a_c_profile_has_the_program_only():
    profile = cProfile.Profile()
    with Asker() as asker:
        profile.enable()
        steps = work(asker)
        profile.disable()
    counts = called(profile)
    assert [code for code in counts if is_ours(code)] == []
    assert counts[step_of_the_program.__code__] == steps


@check
def monitoring_tools_see_the_program_only():
    if not hasattr(sys, "monitoring"):  # before Python 3.12, tools have only the functions checked above
        return
    monitoring, started = sys.monitoring, Counter()
    monitoring.use_tool_id(monitoring.COVERAGE_ID, "a tool")
    monitoring.register_callback(
        monitoring.COVERAGE_ID, monitoring.events.PY_START, lambda code, _offset: started.update([code])
    )
    with Asker() as asker:
        monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.PY_START)
        steps = work(asker)
        monitoring.set_events(monitoring.COVERAGE_ID, 0)
    monitoring.free_tool_id(monitoring.COVERAGE_ID)
    assert [code for code in started if is_ours(code)] == []
    assert started[step_of_the_program.__code__] == steps


class Debugger(bdb.Bdb):
    """Steps through each line, as `step` in pdb does, and counts its stops by code."""

    def __init__(self):
        super().__init__()
        self.stops = Counter()
        self.hits = 0

    def user_line(self, frame):
        self.stops[frame.f_code] += 1
        self.hits += bool(self.get_breaks(frame.f_code.co_filename, frame.f_lineno))
        self.set_step()


@check
def a_debugger_stops_in_the_program_only():
    debugger = Debugger()
    line = step_of_the_program.__code__.co_firstlineno + 1
    assert debugger.set_break(step_of_the_program.__code__.co_filename, line) is None
    with Asker() as asker:
        steps = debugger.runcall(work, asker)
    assert [code for code in debugger.stops if is_ours(code)] == []
    assert debugger.hits == debugger.stops[step_of_the_program.__code__] == steps


class HandlerError(Exception):
    """What the program's signal handler raises."""


def is_working(frame):
    while frame is not None and frame.f_code is not work.__code__:
        frame = frame.f_back
    return frame is not None


def interrupted_by(handler):
    """How many of the probe's calls, each interrupted by a signal, have ended in the program with an exception."""
    signal.signal(signal.SIGUSR1, handler)
    interrupted = 0
    with Asker() as asker:
        asker.function = lambda: signal.raise_signal(signal.SIGUSR1)
        while asker.made < CALLS:
            interrupted += is_interrupted(asker)
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    return interrupted


def is_interrupted(asker):
    try:
        work(asker)
    except HandlerError:
        return True
    return False


@check
def tracing_goes_on_after_a_signal_handler_has_raised_through_a_call():
    raised = []

    def handler(_signal, frame):
        if is_working(frame):
            raised.append(1)
            raise HandlerError

    profile = cProfile.Profile()  # in C: a profile function of Python that the handler interrupts is switched off
    profile.enable()
    interrupted = interrupted_by(handler)
    profile.clear()
    step_of_the_program(0)
    profile.disable()
    counts = called(profile)
    assert interrupted == len(raised) > 0
    assert counts[step_of_the_program.__code__] == 1


@check
def a_profile_that_begins_in_a_signal_handler_works_after_the_call():
    events = Counter()

    def handler(_signal, _frame):
        sys.setprofile(lambda frame, event, _: events.update([frame.f_code]))

    interrupted_by(handler)
    step_of_the_program(0)
    sys.setprofile(None)
    is_late = sys.version_info < (3, 11)
    assert is_late or events[step_of_the_program.__code__]
    assert [code for code in events if is_ours(code)] == []


@check
def a_call_within_a_profile_function_of_the_program_changes_nothing():
    events, within = Counter(), []

    def record(frame, event, _argument):
        events[frame.f_code, event] += 1
        before = asker.made
        while frame.f_code is step_of_the_program.__code__ and asker.made == before < CALLS:
            pass
        within.append(asker.made - before)

    with Asker() as asker:
        sys.setprofile(record)
        steps = work(asker)
        sys.setprofile(None)
    assert sum(within) > 0
    check_events(events, steps)


run()

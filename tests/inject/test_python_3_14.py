"""Python 3.14 loads the probe by its own protocol, and past it where its main thread does not come back."""

from __future__ import annotations

import signal

import pytest

from gputui.inject import checks
from gputui.inject.loading import Phase, load
from gputui.sources.probe import listing, loading
from tests.attach.children import Child, Python, wait_until
from tests.inject import jails, situations
from tests.inject.test_loading import cycle, ended_undisturbed, traces
from tests.inject.test_refused_for_real import child_of, strace
from tests.other_pythons import other_python

pytestmark = pytest.mark.needs("python3.14")


def started(python: Python, source: str) -> Child:
    """A program in Python 3.14 that is ready."""
    child = python.run([other_python("python3.14"), "-c", source])
    child.expect("ready")
    return child


@pytest.mark.needs("strace")
def test_the_probe_is_loaded_under_strace(python: Python) -> None:
    child = started(python, situations.source("computing"))
    with strace(child.pid):
        for _ in range(3):
            cycle(child)
    ended_undisturbed(child)


@pytest.mark.parametrize("situation", ["waiting for input", "waiting for a socket", "waiting for a lock for ever"])
def test_a_main_thread_that_does_not_come_back_is_gone_past(python: Python, situation: str) -> None:
    child = started(python, situations.source(situation))
    for _ in range(2):
        loading.put_probe_in(child.pid, lambda _sentence: None)
        with listing.attach(child.pid) as client:
            client.look()
            client.end_probe()
    wait_until(lambda: not traces(child.pid), "the end of the probe")
    ended_undisturbed(child)


@pytest.mark.needs("strace")
def test_a_main_thread_that_sleeps_is_waited_for_where_it_may_not_be_stopped(python: Python) -> None:
    child = started(python, situations.source("asleep").replace("for_s = 1.5", "for_s = 4"))
    with strace(child.pid):
        cycle(child)
    ended_undisturbed(child)


DROPS = """
import signal, sys
dropped = []
def handler(number, frame):
    raise RuntimeError("of the handler")
def drop(event, arguments):
    if event == "cpython.remote_debugger_script" and len(dropped) < {times}:
        dropped.append(event)
        signal.raise_signal(signal.SIGUSR1)
signal.signal(signal.SIGUSR1, handler)
sys.unraisablehook = lambda raised: print("dropped", raised.exc_value, flush=True)
sys.addaudithook(drop)
print("ready", flush=True)
while True:
    pass
"""


def test_a_script_that_a_signal_handler_has_ended_is_requested_again(python: Python) -> None:
    child = started(python, DROPS.format(times=1))
    loading.put_probe_in(child.pid, lambda _sentence: None)
    assert child.expect("dropped") == "of the handler"
    with listing.attach(child.pid) as client:
        client.statistics()


TIMER = "import signal; signal.signal(signal.SIGALRM, lambda *_: None)\n"


@pytest.mark.parametrize("is_signalled", [False, True])
def test_a_program_with_a_timer_is_given_a_call_that_runs_no_python(python: Python, *, is_signalled: bool) -> None:
    source = situations.source("computing")
    child = started(python, TIMER + source if is_signalled else source)
    target = checks.examine(child.pid)
    assert bool(target.facts.caught_signals >> signal.SIGALRM - 1 & 1) == is_signalled
    way = load(target)
    assert (way.stopped_s > 0) == is_signalled
    wait_until(lambda: way.progress().phase is Phase.LOADED, "the probe")
    with listing.attach(child.pid) as client:
        client.end_probe()
    wait_until(lambda: not traces(child.pid), "the end of the probe")
    ended_undisturbed(child)


def test_a_request_that_is_withdrawn_at_any_moment_prints_nothing(python: Python) -> None:
    child = started(python, situations.source("computing"))
    for _ in range(10):
        load(checks.examine(child.pid)).withdraw()
    cycle(child)
    ended_undisturbed(child)


@pytest.mark.root
@pytest.mark.needs("unshare")
def test_a_program_with_a_timer_whose_jail_refuses_such_a_call_is_given_the_script(python: Python) -> None:
    jail = "no executable memory, by an error"
    source = TIMER + situations.source("computing")
    launcher = python.run([*jails.container(other_python("python3.14"), jail), "-c", source])
    launcher.expect("ready")
    pid = child_of(child_of(launcher.pid))
    way = load(checks.examine(pid))
    assert way.stopped_s == 0
    wait_until(lambda: way.progress().phase is Phase.LOADED, "the probe")
    with listing.attach(pid) as client:
        client.end_probe()
    ended_undisturbed(launcher)

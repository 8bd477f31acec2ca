"""The switch interval and the garbage collector, which hold for all threads, are the program's own after each stop."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from tests.hanging import HANGS_S
from tests.other_pythons import other_python
from tests.torches import REPOSITORY

PYTHONS = [
    sys.executable,
    *(pytest.param(name, marks=pytest.mark.needs(name)) for name in ("python3.8", "python3.12", "python3.14")),
]

BEGINNING = """
    import gc, os, sys, threading
    from gputui.probe import lifecycle
    from gputui.probe.looks import stops, top_watch
    from gputui.probe.looks.stops import undisturbed

    os.register_at_fork(after_in_child=lifecycle._close_in_child)
    began, may_end = threading.Event(), threading.Event()

    def state():
        return gc.isenabled(), sys.getswitchinterval()

    def in_a_thread(function):
        thread = threading.Thread(target=function)
        thread.start()
        return thread

    def wait():
        began.set()
        may_end.wait()

    def in_turn(meanwhile):
        # a stop in the probe's own thread, before which the program does this
        stops.sleep = lambda seconds: meanwhile() if seconds else None
        undisturbed(lambda: None, 25, in_turn=True)

    class Waiting:
        # stands for `select.poll`
        def poll(self, _milliseconds):
            seen.append(sys.getswitchinterval())
            wait()
            return []

    def waiting_for_the_top():
        watch = top_watch.TopWatch(lambda: None)
        watch._waits_until = top_watch.perf_counter() + 1e6
        return in_a_thread(lambda: watch.wait(Waiting(), 0.0, lambda _: None, is_alone=True))

    seen = []
"""
CASES = {
    "a child that a thread forks in the middle of a stop": (
        """
        def fork():
            child = os.fork()
            if not child:
                print(*state(), flush=True)
                os._exit(0)
            os.waitpid(child, 0)

        undisturbed(lambda: in_a_thread(fork).join(), 25)
        print(*state())
        """,
        "True 0.005 True 0.005",
    ),
    "a program that switches the collector on before a stop has its turn": (
        "gc.disable(); in_turn(gc.enable); print(*state())",
        "True 0.005",
    ),
    "a program that switches the collector off before a stop has its turn": (
        "in_turn(gc.disable); print(*state())",
        "False 0.005",
    ),
    "a program that sets another switch interval before a stop has its turn": (
        "in_turn(lambda: sys.setswitchinterval(0.003)); print(*state())",
        "True 0.003",
    ),
    "a program that sets another switch interval in the middle of a stop": (
        "undisturbed(lambda: sys.setswitchinterval(0.003), 25); print(*state())",
        "True 0.003",
    ),
    "two stops, of which the one that began first ends first": (
        """
        first = in_a_thread(lambda: undisturbed(wait, 25))
        began.wait()

        def read():
            may_end.set()
            first.join()
            seen.append(state())

        undisturbed(read, 200)
        print(seen[0][0], seen[0][1] > 0.2, *state())
        """,
        "False True True 0.005",
    ),
    "two stops, of which the one that began first ends last": (
        """
        first = in_a_thread(lambda: undisturbed(wait, 200))
        began.wait()
        undisturbed(lambda: None, 25)
        seen.append(state())
        may_end.set()
        first.join()
        print(seen[0][0], seen[0][1] > 0.2, *state())
        """,
        "False True True 0.005",
    ),
    "a stop before another has its turn": (
        "in_turn(lambda: in_a_thread(lambda: undisturbed(lambda: None, 200)).join()); print(*state())",
        "True 0.005",
    ),
    "a stop while a look waits for the top of a step": (
        """
        watching = waiting_for_the_top()
        began.wait()

        def read():
            seen.append(sys.getswitchinterval())
            may_end.set()
            watching.join()
            seen.append(sys.getswitchinterval())

        undisturbed(read, 200)
        print(seen[0] < 0.001, seen[1] > 0.2, seen[2] > 0.2, *state())
        """,
        "True True True True 0.005",
    ),
    "a look that waits for the top of a step longer than a stop": (
        """
        watching = waiting_for_the_top()
        began.wait()
        undisturbed(lambda: None, 200)
        seen.append(sys.getswitchinterval())
        may_end.set()
        watching.join()
        print(seen[1] < 0.001, *state())
        """,
        "True True 0.005",
    ),
    "a program that sets another switch interval while a look waits for the top of a step": (
        """
        watching = waiting_for_the_top()
        began.wait()
        sys.setswitchinterval(0.003)
        may_end.set()
        watching.join()
        print(*state())
        """,
        "True 0.003",
    ),
    "a stop that a signal handler's exception ends at any line": (
        """
        for place in range(1000):
            places = iter(range(1000))

            def trace(frame, event, _argument):
                is_own = frame.f_globals["__name__"] in (stops.__name__, stops.settings.__module__)
                if is_own and event in ("line", "return") and next(places) == place:
                    raise KeyboardInterrupt
                return trace if is_own else None

            sys.settrace(trace)
            try:
                undisturbed(lambda: None, 25)
            except KeyboardInterrupt:
                seen.append(place)
            else:
                break
            finally:
                sys.settrace(None)
            assert state() == (True, 0.005), (place, state())
        print(len(seen) > 30)
        """,
        "True",
    ),
    "many stops at the same time": (
        """
        def stop_often():
            for _ in range(100):
                undisturbed(lambda: stops.sleep(0), 1)

        threads = [in_a_thread(stop_often) for _ in range(8)]
        for thread in threads:
            thread.join()
        print(*state())
        """,
        "True 0.005",
    ),
}


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("case", CASES)
def test_settings_of_the_interpreter_are_the_programs_after(case: str, python: str) -> None:
    source, expected = CASES[case]
    command = [other_python(python), "-W", "ignore", "-c", textwrap.dedent(BEGINNING) + textwrap.dedent(source)]
    variables = {**os.environ, "PYTHONPATH": str(REPOSITORY), "GPUTUI_PROBE": "0"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=HANGS_S)
    assert (done.stdout.split(), done.stderr) == (expected.split(), "")

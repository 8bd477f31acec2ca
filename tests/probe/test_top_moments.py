"""Where a step needs most, the main thread is held briefly, and nothing of the probe reaches the program."""

from __future__ import annotations

import os
import subprocess
import textwrap

import pytest

from gputui.probe.looks.top_moments import HOLDS_AT_MOST
from tests.hanging import HANGS_S
from tests.other_pythons import other_python
from tests.torches import REPOSITORY

PYTHONS = [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("python3.12", "python3.13", "python3.14")]

BEGINNING = """
    import os, signal, sys, threading, types

    torch, autograd = types.ModuleType("torch"), types.ModuleType("torch.autograd")
    exec("def backward(): return 'passed'\\ndef grad(): return 'passed'", autograd.__dict__)
    functional = types.ModuleType("torch.nn.functional")
    exec("def cross_entropy(): computed.append(1); return 'loss'", functional.__dict__)
    functional.computed = computed = []
    sys.modules.update({"torch": torch, "torch.autograd": autograd, "torch.nn.functional": functional})
    from gputui.probe.guards.boundary import MAIN_THREAD
    from gputui.probe.looks import top_moments
    from gputui.probe.looks.top_moments import TopMoments

    woken, said = threading.Event(), []

    def let_go_when_woken(start):
        woken.wait()
        said.append(f"held {start.is_held}")
        said.append("let go")
        start.let_go()
"""
CASES = {
    "held until it is let go": (
        """
        top_moments.HOLD_S = HANGS_S
        start = TopMoments(woken.set)
        start.watch()
        thread = threading.Thread(target=let_go_when_woken, args=(start,))
        thread.start()
        said.append(autograd.backward())
        thread.join()
        start.leave()
        print(said, start.is_held, autograd.grad(), sys.monitoring.get_tool(4), start.spent_s() > 0)
        """,
        "['held True', 'let go', 'passed'] False passed None True",
    ),
    "held where a loss has been computed": (
        """
        start = TopMoments(lambda: said.append(f"held after {computed}"))
        start.watch()
        said.append(functional.cross_entropy())
        start.leave()
        print(said, functional.cross_entropy())
        """,
        "['held after [1]', 'loss'] loss",
    ),
    "not watched without PyTorch": (
        """
        for name in ("torch.autograd", "torch.nn.functional"):
            del sys.modules[name]
        start = TopMoments(woken.set)
        start.watch()
        print(start.is_watching, sys.monitoring.get_tool(4))
        """,
        "False None",
    ),
    "held briefly, and a few times, by nobody": (
        """
        start, wakes = TopMoments(lambda: wakes.append(1)), []
        start.watch()
        for _ in range(100):
            autograd.backward()
        print(len(wakes))
        """,
        str(HOLDS_AT_MOST),
    ),
    "not held in another thread": (
        """
        start = TopMoments(woken.set)
        start.watch()
        thread = threading.Thread(target=lambda: said.append(autograd.backward()))
        thread.start()
        thread.join()
        print(said, woken.is_set())
        """,
        "['passed'] False",
    ),
    "not held in a forked child": (
        """
        start = TopMoments(woken.set)
        start.watch()
        child = os.fork()
        if not child:
            os._exit(autograd.backward() == "passed" and not woken.is_set())
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
        "1",
    ),
    "not held where the program has taken the numbers": (
        """
        for number in (3, 4):
            sys.monitoring.use_tool_id(number, "the program's")
        start = TopMoments(woken.set)
        start.watch()
        print(autograd.backward(), woken.is_set(), start.is_watching, sys.monitoring.get_tool(3))
        """,
        "passed False False the program's",
    ),
    "not held where the program takes the number away": (
        """
        start = TopMoments(woken.set)
        start.watch()
        sys.monitoring.set_local_events(4, autograd.backward.__code__, 0)
        sys.monitoring.free_tool_id(4)
        sys.monitoring.use_tool_id(4, "the program's")
        start.leave()
        print(autograd.backward(), woken.is_set(), sys.monitoring.get_tool(4))
        """,
        "passed False the program's",
    ),
    "an audit hook refuses": (
        """
        def hook(event, _arguments):
            if event.startswith("sys.monitoring"):
                said.append(event)
                raise OSError("not allowed")

        sys.addaudithook(hook)
        start = TopMoments(woken.set)
        start.watch()
        start.watch()
        print(said, autograd.backward(), start.is_watching, sys.monitoring.get_tool(4))
        """,
        "['sys.monitoring.register_callback'] passed False None",
    ),
    "the program's own exception goes on": (
        """
        def stop(*_):
            raise KeyboardInterrupt

        signal.signal(signal.SIGUSR1, stop)
        start = TopMoments(lambda: signal.raise_signal(signal.SIGUSR1))
        start.watch()
        try:
            autograd.backward()
        except KeyboardInterrupt:
            print("interrupted", MAIN_THREAD.failures)
        """,
        "interrupted 0",
    ),
    "the probe's own exception ends in the probe": (
        """
        start = TopMoments(lambda: 1 / 0)
        start.watch()
        print(autograd.backward(), MAIN_THREAD.failures, "ZeroDivisionError" in MAIN_THREAD.problem)
        """,
        "passed 1 True",
    ),
    "no profiler sees it": (
        """
        seen = []
        start = TopMoments(woken.set)
        start.watch()
        sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_name) if event == "call" else None)
        autograd.backward()
        sys.setprofile(None)
        print(seen, woken.is_set())
        """,
        "['backward'] True",
    ),
}


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("case", CASES)
def test_where_a_step_needs_most(case: str, python: str) -> None:
    source, expected = CASES[case]
    text = textwrap.dedent(BEGINNING) + f"HANGS_S = {HANGS_S}\n" + textwrap.dedent(source)
    command = [other_python(python), "-c", text]
    variables = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=HANGS_S)
    assert (done.stdout.strip(), done.stderr) == (expected, "")

"""Raises an exception at one line of the probe after another, in a program that trains, and reports what it noticed.

Run with `main`, `thread` or `observer`, the place where the probe is entered, and two numbers: the first line that is
taken, and one of how many.
"""

import faulthandler
import gc
import json
import os
import signal
import sys
import threading
import time
from queue import SimpleQueue

import torch
from injecting import OWN, Injector, ProgramError, is_interrupted

import gputui.probe
from gputui.errors import GputuiError
from gputui.probe import lifecycle
from gputui.probe.black_box import observer
from gputui.probe.guards import boundary
from gputui.probe.main_thread import pending_call, untraced
from gputui.probe.viewers import server
from gputui.sources.probe import listing

faulthandler.enable()
WITHIN_S = 60.0


injector = Injector(pending_call.PendingCall.__bool__, observer._observe, boundary.Part.enter)


def is_passed(error, interrupted):
    """Whether the program was interrupted as often as its signal handler has raised an exception."""
    raised, _ = injector.has_raised, injector.arm(None, None)
    return interrupted == (raised and error is ProgramError)


class Traced:
    """In the place of `UntracedCall`: shows the probe's call to the injector, from which it is hidden otherwise."""

    def __init__(self, function):
        self._function = function

    def __bool__(self):
        sys.settrace(injector if injector.is_wanted else None)
        try:
            return bool(self._function())
        finally:
            sys.settrace(None)


class Viewer:
    """Attaches in a thread of its own, and asks for one thing at a time."""

    def __init__(self, *, stays=True):
        self._stays = stays
        self._asked, self._answers = SimpleQueue(), SimpleQueue()
        self._client = None
        threading.Thread(target=self._run, daemon=True).start()

    def ask(self, what):
        """Ask, and train until the answer is there: storages, sentences, and how often the program was interrupted."""
        self._asked.put(what)
        interrupted = 0
        while self._answers.empty():
            interrupted += is_interrupted(step)
        return *self._answers.get(), interrupted

    def _run(self):
        while True:
            what = self._asked.get()
            try:
                answer = self._answer(what)
            except GputuiError as error:
                self._client, answer = None, (0, [str(error)])
            if not self._stays:
                self._leave()
            self._answers.put(answer)

    def _leave(self):
        if self._client is not None:
            self._client.close()
            self._client = None
        while lifecycle._running is not None and getattr(lifecycle._running.server, "is_busy", False):
            time.sleep(0.001)

    def _answer(self, what):
        if self._client is None:
            self._client = listing.attach(os.getpid())
        if what == "statistics":
            statistics = self._client.statistics()
            return len(statistics.devices), [problem.text for problem in statistics.problems]
        look = self._client.look(what, wait_s=WITHIN_S)
        storages = 0 if look.inventory is None else len(look.inventory.storages)
        return storages, [problem.text for problem in look.problems]


ROUNDS_AT_MOST, REACHED = 12, 900
"""Two rounds of questions reach so many lines, unless the main thread got no time for them."""
ASKED = ("walk", "scan", "statistics", "walk", "")
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
rows = [torch.ones(4) for _ in range(4)]
KEPT = 12
"""How many storages there are at any time on the device: parameters, and what the optimizer keeps of each."""


def step():
    optimizer.zero_grad()
    model(torch.ones(3, 8, device="cuda")).sum().backward()
    optimizer.step()
    assert sum(row.sum().item() for row in rows) == 16.0


def state():
    """What a look changes in the meantime, and puts back."""
    handlers = [signal.getsignal(number) for number in sorted(signal.valid_signals())]
    dispatch = torch._C._dispatch_tls_local_exclude_set()
    return [gc.isenabled(), sys.getswitchinterval(), handlers, str(dispatch), torch.is_grad_enabled()]


def changes(before):
    """What is not as it was, and puts it back."""
    changed = [f"{now} after {then}" for then, now in zip(before, state(), strict=True) if now != then]
    gc.enable()
    sys.setswitchinterval(before[1])
    for number, kept in zip(sorted(signal.valid_signals()), before[2], strict=True):
        if callable(kept):
            signal.signal(number, kept)
    return changed


def report(lines, faults):
    sys.stdout.write(json.dumps({"lines": lines, "faults": faults}) + "\n")


def note_lines(viewer, rounds_at_least):
    """Ask until so many lines were reached as an ordinary machine reaches at once."""
    answers = []
    for number in range(ROUNDS_AT_MOST):
        if number >= rounds_at_least and len(injector.reached) > REACHED:
            break
        for what in ASKED:
            injector.doing = what
            answers.append(viewer.ask(what))
    injector.is_noting = False
    assert injector.reached, answers


def in_main_thread(taken):
    pending_call.UntracedCall = Traced
    viewer = Viewer()
    note_lines(viewer, rounds_at_least=2)
    before, faults = state(), []
    lines = sorted(injector.reached)[taken]
    for number, line in enumerate(lines):
        what = injector.reached[line]
        for error in (OWN[number % len(OWN)], ProgramError):
            boundary.MAIN_THREAD.reset()
            injector.arm(line, error)
            answer = viewer.ask(what)
            passed = is_passed(error, answer[2])
            after = [viewer.ask("statistics"), viewer.ask("walk")]
            noted = [boundary.MAIN_THREAD.problem] if boundary.MAIN_THREAD.problem else []
            is_seen = after[0] == (2, noted, 0) and after[1][0] >= KEPT and after[1][1:] == ([], 0)
            if not (passed and is_seen) or state() != before:
                faults.append(f"{error.__name__} at {line}: {answer}, then {after}, {changes(before)}")
    report(len(lines), faults)


class Plain:
    """In the place of `UntracedCall`, in the observer."""

    def __init__(self, function):
        self._function = function

    def __bool__(self):
        return bool(self._function())


def in_observer(taken):
    untraced.UntracedCall, observer.STOP_S, observer.ALWAYS_S = Plain, WITHIN_S, 3600.0
    run_out_of_memory()
    injector.is_noting = False
    before, faults = state(), []
    lines = sorted(injector.reached)[taken]
    for number, line in enumerate(lines):
        for error in (OWN[number % len(OWN)], ProgramError):
            boundary.BLACK_BOX.reset()
            injector.arm(line, error)
            interrupted = run_out_of_memory()
            passed = is_passed(error, interrupted)
            said = boundary.BLACK_BOX.problem, observer._recorder.problem
            assert observer._recorder.finish(WITHIN_S)
            run_out_of_memory()
            recorder = observer._recorder
            is_kept = recorder.kept[-1][0] == recorder.number and not recorder.problem
            if not (passed and is_kept) or state() != before:
                then = recorder.problem, changes(before)
                faults.append(f"{error.__name__} at {line}: {interrupted}, {said}, then {then}")
    report(len(lines), faults)


def run_out_of_memory():
    """Ask for too much; whether a signal handler has interrupted that."""
    sys.settrace(injector)
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        return False
    except ProgramError:
        return True
    finally:
        sys.settrace(None)


def in_own_thread(taken):
    gputui.probe.stop()
    server.untraced = traced
    gputui.probe.start()
    viewer = Viewer(stays=False)
    note_lines(viewer, rounds_at_least=1)
    lines, faults = sorted(injector.reached)[taken], []
    for number, line in enumerate(lines):
        boundary.OWN_THREAD.reset()
        injector.arm(line, OWN[number % len(OWN)])
        answer = viewer.ask(injector.reached[line])
        injector.arm(None, None)
        if gputui.probe.status().startswith("off: "):  # it has said so
            gputui.probe.start()
        after = viewer.ask("walk")
        if after[0] < KEPT or after[1:] != ([], 0):
            faults.append(f"{line}: {answer}, then {after}, {gputui.probe.status()}")
    report(len(lines), faults)


def traced(function):
    trace_this_thread()
    return function()


def trace_this_thread():
    sys.settrace(injector)
    frame = sys._getframe(1)
    while frame is not None:
        frame.f_trace = injector(frame, "call", None)
        frame = frame.f_back


if __name__ == "__main__":
    gc.freeze()  # a scan of what PyTorch's modules have made would only take time
    step()
    {"main": in_main_thread, "thread": in_own_thread, "observer": in_observer}[sys.argv[1]](
        slice(int(sys.argv[2]), None, int(sys.argv[3]))
    )

"""The helper processes: one stops the program's main thread for a moment, one keeps the files of a script.

They are processes of their own, so that what ends gputui does not end them. Each has a session of its own, ignores the
signals that a terminal sends, and limits each wait and all of its work: one that hangs ends itself.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from gputui.inject import checks
from gputui.inject.process import process_facts
from gputui.inject.refusals import Refused
from gputui.inject.ways import by_gdb, payload, remote_debugging
from gputui.inject.ways.by_gdb import GdbError, GdbPlan
from gputui.inject.ways.pending_call import Plan, Queued, StepError, queue
from gputui.inject.ways.ptrace import EndedError, TooLateError

LIMIT_S = 10.0
_OWN_LIMIT_S = 5.0
"""After which a helper process ends itself, wherever it hangs; the program then runs on."""
ENDED = "the process has ended"
_POLL_S = 0.02
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    " from gputui.inject import tracer_process; tracer_process.main(sys.argv[2])"
)


class HelperError(Exception):
    """The helper could not load the probe; `number` is the errno of the system call that failed, 0 if none did."""

    def __init__(self, step: str, words: str, number: int = 0) -> None:
        super().__init__(words)
        self.step = step
        self.number = number


def run(plan: Plan) -> Queued:
    """Have a helper process carry out the plan; raises HelperError. If this process ends meanwhile, it goes on."""
    process = _started("queue_call")
    try:
        output, errors = process.communicate(json.dumps(asdict(plan)).encode(), LIMIT_S)
    except subprocess.TimeoutExpired as error:
        process.kill()
        raise HelperError("released", f"the helper process did not end within {LIMIT_S:.0f} s") from error
    answer = _read_answer(output, errors)
    return Queued(**answer)


class ScriptHelper:
    """A helper process that has requested a remote debugging script, and keeps the script's files until it has run.

    When this process closes its end or dies, it takes the request back, so the program never misses the files.
    """

    def __init__(self, pid: int, gdb: GdbPlan | None = None) -> None:
        self._process = _started("request_script")
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"pid": pid, "linger_s": payload.LINGER_S, "gdb": gdb and asdict(gdb)}
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        self._output = self._process.stdout.fileno()
        self._unread = b""
        self._state: dict[str, Any] = {}
        self._read_states(LIMIT_S + (by_gdb.LONGEST_S if gdb else 0.0))

    def state(self) -> dict[str, Any]:
        """The newest: "outcome" ("loaded", a failure, "" before), "is_waiting" (for the main thread), "stopped_s"."""
        self._read_states(0.0)
        return self._state

    def close(self) -> None:
        """Have the helper withdraw what has not run yet, and end."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _read_states(self, limit_s: float) -> None:
        """Take the states that it has written, waiting `limit_s` for the first; raises HelperError if there is none."""
        while select.select([self._output], [], [], limit_s)[0]:
            data = os.read(self._output, 65536)
            *lines, self._unread = (self._unread + data).split(b"\n")
            for line in lines:
                self._state = _read_answer(line, b"")
            if not data:
                if self._state and not self._state["outcome"]:
                    self._state["outcome"] = "its helper process ended too early"
                break
            limit_s = 0.0
        if not self._state:
            self._process.kill()
            raise HelperError("requested", _failure(self._process.communicate()[1]))


def _started(function: str) -> subprocess.Popen[bytes]:
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _START, root, function],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _read_answer(output: bytes, errors: bytes) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads(output)
    except ValueError as error:
        raise HelperError("seized", _failure(errors)) from error
    if "words" in answer:
        raise HelperError(answer["step"], answer["words"], answer["number"])
    return answer


def _failure(errors: bytes) -> str:
    """Why a helper process has ended without an answer."""
    if errors.startswith(b"Timeout ("):  # what faulthandler writes first
        return "the helper process hung, so it has ended itself"
    lines = errors.decode(errors="replace").strip().splitlines() or ["it said nothing"]
    return f"the helper process failed: {lines[-1]}"


def main(function: str) -> None:
    """Be the helper process."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    {"queue_call": _queue_call, "request_script": _request_script}[function]()


def _end_within(limit_s: float) -> None:
    """End this process after that time, by a thread that needs no turn of the interpreter."""
    faulthandler.dump_traceback_later(limit_s, exit=True)


def _queue_call() -> None:
    _end_within(_OWN_LIMIT_S)
    with suppress(OSError):  # only root may: on a busy machine, the stop is as long as this process waits its turn
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    _say(_answer(Plan(**_with_numbers(json.load(sys.stdin))), lambda _step: None))


def _request_script() -> None:
    asked = json.loads(sys.stdin.readline())
    _end_within(_OWN_LIMIT_S + (by_gdb.LONGEST_S if asked["gdb"] else 0.0))
    try:
        request = _requested(**asked)
    except GdbError as error:
        _say({"step": "seized", "words": str(error), "number": error.number})
        return
    except (Refused, OSError) as error:
        _say({"step": "requested", "words": str(error), "number": 0})
        return
    _say({"outcome": "", "is_waiting": True, "stopped_s": request.stopped_s})
    is_waiting = True
    faulthandler.cancel_dump_traceback_later()
    while not select.select([sys.stdin], [], [], _POLL_S)[0]:
        signal.alarm(int(_OWN_LIMIT_S))  # ends this process, unless the next round comes in time
        try:
            outcome, is_waiting_now = request.outcome(), request.is_waiting()
        except OSError as error:
            outcome, is_waiting_now = str(error) if process_facts.is_running(asked["pid"]) else ENDED, False
        if outcome or is_waiting_now != is_waiting:
            is_waiting = is_waiting_now
            _say({"outcome": outcome, "is_waiting": is_waiting, "stopped_s": request.stopped_s})
        if outcome:
            break
    request.withdraw()


def _requested(pid: int, linger_s: float, gdb: dict[str, Any] | None) -> remote_debugging.Request | by_gdb.Request:
    if gdb is not None:
        return by_gdb.request(GdbPlan(**_with_numbers(gdb)), process_facts.read(pid), linger_s)
    target = checks.examine(pid)
    if target.debugger is None:
        raise OSError("this Python has no remote debugging that gputui knows")
    return remote_debugging.Request(target.debugger, target.facts, linger_s)


def _with_numbers(plan: dict[str, Any]) -> dict[str, Any]:
    """A plan that came as JSON, which has texts as keys."""
    return {**plan, "lives": {int(address): value for address, value in plan["lives"].items()}}


def _say(answer: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _answer(plan: Plan, reached: Callable[[str], None]) -> dict[str, object]:
    last = "seized"

    def remember(step: str) -> None:
        nonlocal last
        last = step
        reached(step)

    try:
        return asdict(queue(plan, remember))
    except StepError as error:
        return {"step": error.step, "words": str(error), "number": error.number}
    except (EndedError, ChildProcessError, ProcessLookupError):
        return {"step": last, "words": ENDED, "number": 0}
    except TooLateError:
        return {"step": last, "words": "the main thread did not stop in time", "number": 0}
    except OSError as error:
        return {"step": last, "words": str(error.strerror), "number": error.errno or 0}

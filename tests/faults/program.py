"""Runs a command of gputui with failing system calls:  program.py REQUEST RESULT

REQUEST is JSON: `arguments`, `faults` (each a kind of call, an error, and how many calls fail), and `places`, at about
how many calls of a run each fault is tried. RESULT gets, for each fault, a list of `{"place", "status", "output",
"errors", "count"}`; its first is the run without a fault. A run that waits for ever is killed, and its status is null.
On a terminal (`"terminal"` is the number of the call that fails) this process itself is the run.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import gputui.cli

LIBRARY = ctypes.CDLL(None)
IMPORT_CALLS = ("open", "read", "stat", "memory", "signal")
"""Kinds of calls that an import makes: their faults are also tried in a run that has imported nothing."""
FUTEX = ("202", "98")
"""The number of the system call that waits for a lock, on x86-64 and on ARM."""
POLL_S = 0.002


def begin(arguments: list[str], fault: dict, place: int) -> int:
    """Be the command from here on, with one fault."""
    sys.argv[1:] = arguments
    LIBRARY.faults_start(fault["kind"].encode(), ctypes.c_long(place), ctypes.c_long(fault["lasting"]), fault["error"])
    return gputui.cli.main()


def run(arguments: list[str], fault: dict, place: int) -> dict:
    """What one run did."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as report:
        pid = os.fork()
        if not pid:
            for number, file in ((1, output), (2, errors)):
                os.dup2(file.fileno(), number)
            if not place or fault["kind"] == "signal":
                own = os.fdopen(os.dup(report.fileno()), "w")
                atexit.register(lambda: print(LIBRARY.faults_count(), *sys.modules, file=own, flush=True))
            sys.exit(begin(arguments, fault, place))
        status = ended(pid)
        for file in (output, errors, report):
            file.seek(0)
        count, *modules = report.read().decode().split() or ["0"]
        return {
            "place": place,
            "status": status,
            "output": output.read().decode(errors="replace"),
            "errors": errors.read().decode(errors="replace"),
            "count": int(count),
            "modules": modules,
        }


def ended(pid: int) -> int | None:
    """The exit status of a run; None if it had to be killed."""
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if waits_for_ever(Path("/proc", str(pid))):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(POLL_S)


def waits_for_ever(process: Path) -> bool:
    """Whether each thread of a process waits for a lock without a limit: nobody is left to release one."""

    def standing() -> list[tuple[str, str]]:
        tasks = sorted((process / "task").iterdir())
        return [((task / "syscall").read_text(), (task / "status").read_text()) for task in tasks]  # how often it slept

    try:
        before = standing()
        return all(map(waits_without_a_limit, (call for call, _ in before))) and standing() == before
    except OSError:  # it is ending, and shows this to root alone
        return False


def waits_without_a_limit(call: str) -> bool:
    number, *arguments = call.split()
    return number in FUTEX and int(arguments[3], 16) == 0


def runs(request: dict) -> list[list[dict]]:
    """Of each fault, first where all is imported only when it is needed, then where it has been, which is quick."""
    arguments, faults = request["arguments"], request["faults"]
    well = run(arguments, {"kind": "open", "error": 0, "lasting": 1}, 0)
    assert well["count"] > 1, well  # otherwise no place is in the middle of it
    fresh = [[run(arguments, fault, well["count"] // 2)] if fault["kind"] in IMPORT_CALLS else [] for fault in faults]
    for name in well["modules"]:
        importlib.import_module(name)
    counts = {kind: run(arguments, {"kind": kind, "error": 0, "lasting": 1}, 0) for kind in {f["kind"] for f in faults}}
    found = []
    for fault, first in zip(faults, fresh, strict=True):
        well = counts[fault["kind"]]
        last, many = well["count"], min(well["count"], request["places"])
        places = [1 + (2 * number + 1) * last // (2 * many) for number in range(many)]
        found.append([well, *first, *(run(arguments, fault, place) for place in places)])
    return found


if __name__ == "__main__":
    request = json.loads(Path(sys.argv[1]).read_text())
    if place := request.get("terminal"):
        sys.exit(begin(request["arguments"], request["faults"][0], place))
    Path(sys.argv[2]).write_text(json.dumps(runs(request)))

"""Runs a command of gputui with failing system calls:  program.py REQUEST RESULT

REQUEST is JSON: `arguments`, `kind`, `error`, `lasting`, and `places`, the numbers of the calls that fail, one run for
each; 0 only counts. RESULT gets a list of `{"place", "status", "output", "errors", "count"}`. A run that takes longer
than `within_s` is killed, and its status is null. On a terminal (`"terminal": true`) this process itself is the run.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import gputui.cli

LIBRARY = ctypes.CDLL(None)


def begin(request: dict, place: int) -> int:
    """Be the command from here on, with one fault."""
    sys.argv[1:] = request["arguments"]
    LIBRARY.faults_start(
        request["kind"].encode(), ctypes.c_long(place), ctypes.c_long(request["lasting"]), request["error"]
    )
    return gputui.cli.main()


def run(request: dict, place: int) -> dict:
    """What one run did."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as count:
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            for number, file in ((1, output), (2, errors)):
                os.dup2(file.fileno(), number)
            signal.alarm(request["within_s"])
            counter = os.fdopen(os.dup(count.fileno()), "wb", buffering=0)

            def report() -> None:
                counter.write(str(LIBRARY.faults_count()).encode())

            import atexit

            atexit.register(report)
            sys.exit(begin(request, place))
        _, status = os.waitpid(pid, 0)
        for file in (output, errors, count):
            file.seek(0)
        return {
            "place": place,
            "status": os.waitstatus_to_exitcode(status),
            "output": output.read().decode(errors="replace"),
            "errors": errors.read().decode(errors="replace"),
            "count": int(count.read() or 0),
        }


if __name__ == "__main__":
    request = json.loads(Path(sys.argv[1]).read_text())
    if request.get("terminal"):
        sys.exit(begin(request, request["places"][0]))
    result = Path(sys.argv[2])
    result.write_text(json.dumps([run(request, place) for place in request["places"]]))

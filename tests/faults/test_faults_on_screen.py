"""Both applications with failing system calls: they go on, or end with a sentence on a terminal that is as it was."""

from __future__ import annotations

import errno
import json
import shlex
import signal
import sys
from pathlib import Path

import pytest

from tests.faults.runs import PROGRAM, Fault, Runs
from tests.faults.test_faults import FAULTS
from tests.scale import SCALE
from tests.terminal.conftest import Open
from tests.terminal.pty_session import PtySession

pytestmark = pytest.mark.long
APPLICATIONS = ("", "attach PID")
ON_SCREEN = FAULTS | {"no memory": Fault("memory", errno.ENOMEM)}
"""Python waits for ever for a thread that had no memory to start; what lacks memory for good needs Ctrl-C."""
_NOT_EVEN_NULL = 120
"""Python's own status where at its end not even /dev/null takes a byte."""
PLACES = range(1, 1200, max(1, 599 // SCALE))


def start(terminal: Open, runs: Runs, folder: Path, command: str, fault: Fault, place: int) -> PtySession:
    request = folder / "request.json"
    content = {**fault._asdict(), "arguments": runs.words(command), "places": [place], "terminal": True}
    request.write_text(json.dumps(content))
    command = shlex.join([sys.executable, str(PROGRAM), str(request)])
    return terminal(f"exec {command}", **runs.environment)


def is_up_or_ended(session: PtySession) -> bool:
    return "Help" in session.text or session.process.poll() is not None


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("fault", ON_SCREEN.values(), ids=ON_SCREEN.keys())
@pytest.mark.parametrize("command", APPLICATIONS, ids=["monitor", "attach"])
def test_an_application_survives_or_says_a_sentence(
    terminal: Open,
    runs: Runs,
    tmp_path: Path,
    command: str,
    fault: Fault,
    place: int,
) -> None:
    session = start(terminal, runs, tmp_path, command, fault, place)
    session.wait(lambda: is_up_or_ended(session), "a screen or an end")
    session.send("\x03")
    status = session.end()
    assert b"Traceback" not in session.output, session.text
    assert session.left_behind() == [], session.text
    assert status in ((0, 1, 2, _NOT_EVEN_NULL) if fault.kind == "write" else (0, 1, 2)), session.text


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_at_any_step_restores_the_terminal(
    terminal: Open,
    runs: Runs,
    tmp_path: Path,
    number: signal.Signals,
    place: int,
) -> None:
    session = start(terminal, runs, tmp_path, "", Fault("signal", int(number)), place)
    session.wait(lambda: is_up_or_ended(session), "a screen or an end")
    session.send("\x03")
    session.end()
    assert b"Traceback" not in session.output, session.text
    assert session.left_behind() == [], session.text

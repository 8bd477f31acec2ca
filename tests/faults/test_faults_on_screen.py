"""Both applications with failing system calls: they go on, or end with a sentence on a terminal that is as it was."""

from __future__ import annotations

import errno
import shlex
import signal
import sys
from collections.abc import Mapping

import pytest
from _pytest.mark import ParameterSet

from tests.faults.runs import PROGRAM, Fault, Runs
from tests.faults.test_faults import FAULTS, statuses
from tests.scale import SCALE, some
from tests.terminal.conftest import Open
from tests.terminal.pty_session import PtySession

pytestmark = pytest.mark.long
APPLICATIONS = {"monitor": "", "attach": "attach PID"}
ON_SCREEN = FAULTS | {
    "no memory": Fault("memory", errno.ENOMEM),
    "no socket": Fault("socket", errno.EMFILE),
}
"""What lacks memory for good needs Ctrl-C, and asyncio learns of a key by a socket."""
SIGNALS = {one.name: Fault("signal", int(one)) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
CALLS = {
    "open": 920,
    "read": 1600,
    "stat": 3800,
    "signal": 2500,
    "memory": 64,
    "time": 22,
    "thread": 8,
    "descriptor": 3,
    **dict.fromkeys(("write", "socket"), 1),
}
"""About how many calls of each kind the monitor makes until it is left, most of the first ones in imports.

Of two kinds only the first fails: a terminal that takes nothing later cannot be restored, and asyncio would say a
traceback of its socket.
"""
EARLY, LATE = 1 / 8, 7 / 8
"""While it imports, and while it shows its screen."""


def places(kind: str, *daily: float) -> list[int]:
    """The numbers of the calls that fail: at these parts of a run, or in the nightly run at many."""
    last = CALLS[kind]
    return [round(part * last) for part in daily] if SCALE == 1 else [*range(1, last + 1, max(1, last // (2 * SCALE)))]


def at_places(faults: Mapping[str, Fault], *daily: float) -> list[ParameterSet]:
    return [
        pytest.param(fault, place, id=f"{name}-{place}")
        for name, fault in faults.items()
        for place in places(fault.kind, *daily)
    ]


def start(terminal: Open, runs: Runs, command: str, fault: Fault, place: int) -> PtySession:
    request = runs.request(command, fault, terminal=place)
    return terminal(f"exec {shlex.join([sys.executable, str(PROGRAM), str(request)])}", **runs.environment)


def is_up_or_ended(session: PtySession) -> bool:
    return "Help" in session.text or session.process.poll() is not None or lost_a_thread(session)


def lost_a_thread(session: PtySession) -> bool:
    """Whether a thread had no memory to start: Python waits for it for ever."""
    return "Exception ignored in thread started by" in session.text


@pytest.mark.parametrize(
    ("command", "fault", "place"),
    some(
        (
            pytest.param(command, *at.values, id=f"{name}-{at.id}")
            for at in at_places(ON_SCREEN, LATE)
            for name, command in APPLICATIONS.items()
        ),
        3,
    ),
)
def test_an_application_survives_or_says_a_sentence(
    terminal: Open, runs: Runs, command: str, fault: Fault, place: int
) -> None:
    session = start(terminal, runs, command, fault, place)
    session.wait(lambda: is_up_or_ended(session), "a screen or an end")
    if lost_a_thread(session):
        return
    session.send("\x03")
    status = session.end()
    assert b"Traceback" not in session.output, session.text
    assert session.left_behind() == [], session.text
    assert status in (*statuses(fault), 130), session.text  # 130: it had ended by itself when Ctrl-C came


@pytest.mark.parametrize(("fault", "place"), at_places(SIGNALS, EARLY, LATE))
def test_a_signal_at_any_step_restores_the_terminal(terminal: Open, runs: Runs, fault: Fault, place: int) -> None:
    session = start(terminal, runs, "", fault, place)
    session.wait(lambda: is_up_or_ended(session), "a screen or an end")
    session.send("\x03")
    session.end()
    assert b"Traceback" not in session.output, session.text
    assert session.left_behind() == [], session.text

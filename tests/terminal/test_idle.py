"""An idle monitor sends no bytes and wakes no thread."""

from __future__ import annotations

import time
from pathlib import Path

from tests.terminal.conftest import GPUTUI, Open
from tests.terminal.pty_session import PtySession

WATCHED_S = 2.0
WAKE_UPS = 4
"""Allows for a leftover start-up timer; polling ten times a second would cause twenty wake-ups."""


def wake_ups(session: PtySession) -> int:
    """How often the program's threads have gone to sleep so far; each sleep ends in one wake-up."""
    threads = Path(f"/proc/{session.process.pid}/task").glob("*/status")
    lines = [line for thread in threads for line in thread.read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def test_a_paused_monitor_wakes_no_thread(terminal: Open) -> None:
    session = terminal(f"exec {GPUTUI} --demo", size=(120, 40))
    session.wait_for("Help")
    session.send("p")
    session.wait_for("PAUSED")
    session.wait_for_silence(40)
    written, before = len(session.output), wake_ups(session)
    time.sleep(WATCHED_S)
    session.pump(0.0)
    assert len(session.output) == written
    assert wake_ups(session) - before <= WAKE_UPS


def test_an_idle_monitor_reacts_to_a_key_and_to_a_lone_escape(terminal: Open) -> None:
    session = terminal(f"exec {GPUTUI} --demo --interval 60", size=(120, 40))
    session.wait_for("Help")
    session.wait_for_silence()
    session.send("?")
    session.wait_for("app.help")
    session.send("\x1b")
    session.wait_without("app.help")
    session.send("q")
    assert session.end() == 0

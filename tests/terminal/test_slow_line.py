"""A line slower than the monitor: what was shown late is not shown, and keys do not queue behind it."""

from __future__ import annotations

import signal
import time

from tests.terminal.conftest import GPUTUI, Open

KEYS = ("?", "\x1b[27u")


def test_a_stalled_line_gets_the_newest_frame_and_not_all_that_were_missed(terminal: Open) -> None:
    """While nobody reads, the screens that keys opened and closed are worth nothing."""
    session = terminal(f"exec {GPUTUI} --demo --interval 60", size=(200, 50))
    session.wait_for("Help")
    session.wait_for_silence()
    before = len(session.output)
    session.send("?")
    session.wait_for("app.help")
    session.wait_for_silence()
    one_screen = len(session.output) - before
    session.send(KEYS[1])
    session.wait_for("RAM")
    session.wait_for_silence()
    before = len(session.output)
    for key in KEYS * 30:
        session.send(key)
        time.sleep(0.05)  # so that each screen would be drawn by itself
    session.wait_until_idle()
    session.wait_for("RAM")
    session.wait_for_silence()
    assert len(session.output) - before < 10 * one_screen  # of 60


def test_a_line_that_takes_nothing_does_not_keep_the_monitor_from_ending(terminal: Open) -> None:
    session = terminal(f"exec {GPUTUI} --demo --interval 60", size=(200, 50))
    session.wait_for("Help")
    for key in KEYS * 20:  # more than the terminal's buffer holds
        session.send(key)
        time.sleep(0.05)
    session.wait_until_idle()
    session.kill(signal.SIGTERM)
    assert session.process.wait(60) == 128 + signal.SIGTERM

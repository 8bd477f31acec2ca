"""A connection slower than the monitor: outdated frames are dropped, and keys do not wait behind them."""

from __future__ import annotations

import signal

from tests.terminal.conftest import GPUTUI, Open

KEYS = ("?", "\x1b[27u")


def test_a_stalled_connection_gets_only_the_newest_frame(terminal: Open) -> None:
    """Screens that keys opened and closed while the terminal was not read are not sent."""
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
    for key in KEYS * 15:
        session.send(key)
        session.wait_until_idle(1)
    session.wait_until_idle()
    session.wait_for("RAM")
    session.wait_for_silence()
    assert len(session.output) - before < 10 * one_screen  # 30 screens were opened and closed


def test_sigterm_ends_the_monitor_on_a_stalled_connection(terminal: Open) -> None:
    session = terminal(f"exec {GPUTUI} --demo --interval 60", size=(200, 50))
    session.wait_for("Help")
    for key in KEYS * 20:  # more than the terminal's buffer holds
        session.send(key)
        session.wait_until_idle(1)
    session.wait_until_idle()
    session.kill(signal.SIGTERM)
    assert session.exit_status() == 128 + signal.SIGTERM

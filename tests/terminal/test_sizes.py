"""Terminals of any size, and sizes that change."""

from __future__ import annotations

import pytest

from tests.terminal.conftest import Open
from tests.terminal.pty_session import PtySession

ESCAPE = "\x1b[27u"
"""As a terminal with the keyboard protocol sends it: no wait for what else might follow."""
REPAINT = "\x0c"

SCREENS = [
    ("\r", "PSS"),
    ("?", "app.help"),
    ("t", "job of"),
    ("/", "words, or an expression"),
    ("o", "Sort by (capital letter: reversed)"),
    ("K", "Send SIGKILL"),
    ("\t\r", "Device 0"),
]
"""Keys that open a screen, and words that stand on it alone."""


def assert_the_screen_is_right(session: PtySession) -> None:
    """What the terminal shows is what the program believes: painting every cell again changes nothing."""
    session.send("p")
    session.wait_for("PAUSED")
    session.wait_for_silence()
    shown = session.text
    session.screen.reset()
    session.send(REPAINT)
    session.wait(lambda: session.text == shown, f"the same screen again as\n{shown}\n")


def test_after_a_storm_of_resizes_the_screen_is_right(terminal: Open) -> None:
    session = terminal()
    session.wait_for("Help")
    for n in range(200):
        session.set_size(20 + n * 7 % 180, 5 + n * 3 % 60)
    session.set_size(120, 40)
    session.wait(lambda: "Help" in session.screen.display[39], "the keys in the last line of 40")
    assert_the_screen_is_right(session)
    session.send("q")
    assert session.end() == 0
    assert session.left_behind() == []


def test_one_cell_and_back(terminal: Open) -> None:
    session = terminal()
    session.wait_for("Help")
    session.set_size(1, 1)
    session.wait(lambda: session.text.strip() in ("g", ""), "a screen of one cell")
    session.set_size(120, 40)
    session.wait(lambda: "Help" in session.screen.display[39], "the keys in the last line of 40")
    assert_the_screen_is_right(session)


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (7, 3), (300, 100)], ids=str)
def test_no_screen_minds_any_size(terminal: Open, size: tuple[int, int]) -> None:
    session = terminal()
    session.wait_for("Help")
    for keys, words in SCREENS:
        session.send(keys)
        session.set_size(*size)
        session.set_size(80, 24)
        session.wait_for(words)
        session.send(ESCAPE)
        session.screen.reset()
        session.send(REPAINT)
        session.wait(lambda: "Filter" in session.screen.display[23], f"the overview again, after {keys!r}")
    session.send("\x03")
    assert session.end() == 0


def test_a_terminal_without_a_size_is_taken_for_80x24(terminal: Open) -> None:
    session = terminal(size=(0, 0))
    session.screen.resize(24, 80)
    session.wait_for("Help")
    assert "Help" in session.screen.display[23]


def test_the_terminal_knows_its_size_better_than_the_environment(terminal: Open) -> None:
    session = terminal(size=(120, 40), COLUMNS="60", LINES="10")
    session.wait(lambda: "Help" in session.screen.display[39], "the keys in the last line of 40")
    session.set_size(100, 30)
    session.wait(lambda: "Help" in session.screen.display[29], "the keys in the last line of 30")

"""Terminals of every size, and resizes."""

from __future__ import annotations

from functools import partial

from tests.scale import at_night
from tests.terminal.conftest import Open
from tests.terminal.pty_session import PtySession

ESCAPE = "\x1b[27u"
"""Escape in the keyboard protocol's form, which needs no wait to tell it from the start of a sequence."""
REPAINT = "\x0c"

TREE = "t"
"""Changes the overview, and opens nothing in front of it."""

SCREENS = [
    ("\r", "PSS"),
    ("?", "app.help"),
    (TREE, "4 workers"),  # the heading "job of" may stay scrolled out of sight after a terminal of one line
    ("/", "words, or an expression"),
    ("o", "Sort by (capital letter: reversed)"),
    ("K", "Send SIGKILL"),
    ("\t\r", "Device 0"),
]
"""Keys that open a screen, and words that appear only on that screen."""
SIZES = ((1, 1), (300, 100), *at_night((2, 1), (7, 3)))


def is_overview(session: PtySession, closed: str) -> bool:
    """Whether the keys of the overview are there and nothing in front of it, which would have the words `closed`."""
    return "Filter" in session.screen.display[23] and not (closed and closed in session.text)


def assert_the_screen_is_right(session: PtySession) -> None:
    """Repainting every cell changes nothing, so the terminal shows what the program believes it shows."""
    session.send("p")
    session.wait_for("PAUSED")
    session.wait_for_silence()
    shown = session.text
    session.screen.reset()
    session.send(REPAINT)
    session.wait(lambda: session.text == shown, f"the same screen again as\n{shown}\n")


def test_the_screen_is_right_after_200_resizes(terminal: Open) -> None:
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


def test_the_screen_recovers_from_a_size_of_one_cell(terminal: Open) -> None:
    session = terminal()
    session.wait_for("Help")
    session.set_size(1, 1)
    session.wait(lambda: session.text.strip() in ("g", ""), "a screen of one cell")
    session.set_size(120, 40)
    session.wait(lambda: "Help" in session.screen.display[39], "the keys in the last line of 40")
    assert_the_screen_is_right(session)


def test_every_screen_survives_every_size(terminal: Open) -> None:
    session = terminal()
    session.wait_for("Help")
    for keys, words in SCREENS:
        session.send(keys)
        session.wait_for(words)
        for size in SIZES:
            session.set_size(*size)
            session.wait_for_silence(1)
        session.set_size(80, 24)
        session.wait_for(words)
        session.send(ESCAPE)
        session.screen.reset()
        session.send(REPAINT)
        session.wait(
            partial(is_overview, session, "" if keys == TREE else words), f"the overview again, after {keys!r}"
        )
    session.send("\x03")
    assert session.end() == 0


def test_a_terminal_without_a_size_is_treated_as_80x24(terminal: Open) -> None:
    session = terminal(size=(0, 0))
    session.screen.resize(24, 80)
    session.wait_for("Help")
    assert "Help" in session.screen.display[23]


def test_the_terminals_size_overrides_columns_and_lines(terminal: Open) -> None:
    session = terminal(size=(120, 40), COLUMNS="60", LINES="10")
    session.wait(lambda: "Help" in session.screen.display[39], "the keys in the last line of 40")
    session.set_size(100, 30)
    session.wait(lambda: "Help" in session.screen.display[29], "the keys in the last line of 30")

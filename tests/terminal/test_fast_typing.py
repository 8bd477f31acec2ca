"""Keys that are typed or pasted faster than screens open and close."""

from __future__ import annotations

from tests.scale import sized
from tests.terminal.conftest import Open

FAST = ("ogg", "oggggg", "?\x1b[27u\x1b[27u", "K\r\r\r\r", "\t\r" + "\x7f" * 8, "Tq" * 9, "/gpu\r\r" * 3)


def test_no_key_closes_more_than_one_screen(terminal: Open) -> None:
    session = terminal()
    session.wait_for("Help")
    for keys in FAST:
        for _ in range(sized(1, 3)):
            session.send(keys)
        session.wait_for_silence()
        session.send("\x1b[27u")  # closes any screen or dialog that is still open
        session.wait_for_silence()
        session.screen.reset()
        session.send("\x0c")
        session.wait(lambda: " gputui DEMONSTRATION" in session.text, f"the overview after {keys!r}")
    session.send("\x03")
    assert session.end() == 0, session.text
    assert session.left_behind() == []


def test_a_key_right_after_the_end_of_a_filter_is_no_part_of_it(terminal: Open) -> None:
    session = terminal()
    session.wait_for("Help")
    for end in ("\x1b[27u", "\r") * 2:
        session.send("/")
        session.wait_for("words, or an expression")
        session.send(f"{end}o")
        session.wait_for("Sort by (capital letter: reversed)")
        session.send("\x1b[27u")
        session.wait_without("Sort by")
    assert "filter: " not in session.text

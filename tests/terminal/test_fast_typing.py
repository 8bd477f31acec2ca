"""Keys that are typed or pasted faster than screens open and close."""

from __future__ import annotations

import pytest

from tests.terminal.conftest import Open


@pytest.mark.parametrize(
    "keys", ["ogg", "oggggg", "?\x1b[27u\x1b[27u", "K\r\r\r\r", "\t\r" + "\x7f" * 8, "Tq" * 9, "/gpu\r\r" * 3], ids=repr
)
def test_no_key_closes_more_than_one_screen(terminal: Open, keys: str) -> None:
    session = terminal()
    session.wait_for("Help")
    for _ in range(3):
        session.send(keys)
    session.wait_for_silence()
    session.send("\x1b[27u")  # closes any screen or dialog that is still open
    session.wait_for_silence()
    session.screen.reset()
    session.send("\x0c")
    session.wait_for(" gputui DEMONSTRATION")
    session.send("\x03")
    assert session.end() == 0, session.text
    assert session.left_behind() == []


@pytest.mark.parametrize("end", ["\x1b[27u", "\r"], ids=["Escape", "Enter"])
def test_a_key_right_after_the_end_of_a_filter_is_no_part_of_it(terminal: Open, end: str) -> None:
    session = terminal()
    session.wait_for("Help")
    for _ in range(3):
        session.send("/")
        session.wait_for("words, or an expression")
        session.send(f"{end}o")
        session.wait_for("Sort by (capital letter: reversed)")
        session.send("\x1b[27u")
        session.wait_without("Sort by")
    assert "filter: " not in session.text

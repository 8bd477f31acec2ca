"""The line of keys: what it shows at each width."""

from __future__ import annotations

import pytest

from gputui.ui.drawing.keys import KeyEntry, draw_keys
from gputui.ui.drawing.line import text_of, width_of

ENTRIES = [
    *(KeyEntry(str(number), words, str(number), "Screens") for number, words in enumerate(("Memory", "Why", "Map"), 1)),
    KeyEntry("z", "Zoom", "z"),
    KeyEntry("m", "Mark", "m"),
    KeyEntry("?", "Help", "question_mark", is_kept=True),
    KeyEntry("q", "Quit", "q", is_kept=True),
    KeyEntry("p", "Pause", "p"),
]


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (80, " 1 Memory  2 Why  3 Map  z Zoom  m Mark  ? Help  q Quit  p Pause"),
        (66, " 1 Memory  2 Why  3 Map  z Zoom  m Mark  ? Help  q Quit  p Pause"),
        (60, " 1-3 Screens  z Zoom  m Mark  ? Help  q Quit  p Pause"),
        (50, " 1-3 Screens  z Zoom  m Mark  ? Help  q Quit"),
        (40, " 1-3 Screens  z Zoom  ? Help  q Quit"),
        (30, " 1-3 Screens  ? Help  q Quit"),
        (17, " ? Help  q Quit"),
        (8, " ? Help"),
        (7, ""),
        (1, ""),
    ],
)
def test_entries_are_shown_whole_and_help_and_quit_are_dropped_last(width, text):
    line, _ = draw_keys(ENTRIES, width)
    assert text_of([line]) == text
    assert width_of(line) == width


def test_a_group_shown_as_one_entry_cannot_be_clicked():
    line, spans = draw_keys(ENTRIES, 40)
    places = {text_of([line])[start:end].strip(): key for start, end, key in spans}
    assert places == {"1-3 Screens": "", "z Zoom": "z", "? Help": "question_mark", "q Quit": "q"}


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ("123478", "1-4,7,8"),
        ("1235789", "1-3,5,7-9"),
        ("12345678", "1-8"),
        ("13", "1,3"),
        ("abc", "a-c"),
    ],
)
def test_a_group_shown_as_one_entry_has_no_key_that_does_nothing(keys, shown):
    line, _ = draw_keys([KeyEntry(key, f"Screen number {key}", key, "Screens") for key in keys], 30)
    assert text_of([line]).strip() == f"{shown} Screens"

"""Cursor moves and style changes in as few bytes as possible."""

from __future__ import annotations

import pytest
from rich.color import ColorSystem
from rich.style import Style

from gputui.ui.backend.pen import RESET, Pen, ScreenRun, change, in_columns, move

GREEN, PLAIN = Style(color="green"), Style()


@pytest.mark.parametrize(
    ("at", "to", "written"),
    [
        pytest.param(None, (0, 0), "\x1b[H", id="the first cell"),
        pytest.param(None, (4, 0), "\x1b[5H", id="the first cell of a line"),
        pytest.param(None, (4, 9), "\x1b[5;10H", id="from an unknown position"),
        pytest.param((4, 9), (4, 9), "", id="already there"),
        pytest.param((4, 9), (4, 10), "\x1b[C", id="one to the right"),
        pytest.param((4, 9), (4, 14), "\x1b[5C", id="along the line"),
        pytest.param((4, 9), (4, 7), "\b\b", id="a short way left"),
        pytest.param((4, 9), (4, 2), "\x1b[7D", id="a long way left"),
        pytest.param((4, 9), (4, 0), "\r", id="to the left edge"),
        pytest.param((4, 9), (5, 8), "\x1b[B\b", id="one line down"),
        pytest.param((4, 9), (6, 0), "\x1b[7H", id="two lines down at the left edge"),
        pytest.param((4, 9), (3, 9), "\x1b[4;10H", id="one line up"),
        pytest.param((14, 99), (19, 20), "\x1b[20;21H", id="far away"),
    ],
)
def test_a_move_uses_the_shortest_sequence(at, to, written):
    assert move(at, *to) == written


@pytest.mark.parametrize(
    ("old", "new", "written"),
    [
        pytest.param(RESET, ("0", "32", "49"), "\x1b[32m", id="a colour"),
        pytest.param(RESET, ("0;2", "32", "49"), "\x1b[2;32m", id="an attribute needs no reset where none is set"),
        pytest.param(
            ("0;2", "32", "49"), ("0;1", "32", "49"), "\x1b[0;1;32m", id="removing an attribute needs a reset"
        ),
        pytest.param(("0;1", "32", "49"), ("0;1", "33", "49"), "\x1b[33m", id="only the colour changes"),
        pytest.param(("0;1", "32", "41"), RESET, "\x1b[m", id="back to the default style"),
    ],
)
def test_a_style_change_sends_only_the_difference(old, new, written):
    assert change(old, new) == written


def test_runs_in_the_same_column_are_written_one_after_another():
    rows = [ScreenRun(y, x, [("7", style)]) for y in range(3) for x, style in ((10, GREEN), (40, PLAIN))]
    assert [(run.x, run.y) for run in in_columns(rows)] == [(10, 0), (10, 1), (10, 2), (40, 0), (40, 1), (40, 2)]
    pen = Pen(ColorSystem.STANDARD, 80)
    for run in in_columns(rows):
        pen.write(run)
    assert pen.finish() == "\x1b[1;11H\x1b[32m7\x1b[B\b7\x1b[B\b7\x1b[1;41H\x1b[m7\x1b[B\b7\x1b[B\b7"


def test_after_the_right_edge_or_non_ascii_text_a_move_is_absolute():
    pen = Pen(ColorSystem.STANDARD, 10)
    for run in (
        ScreenRun(0, 9, [("a", PLAIN)]),
        ScreenRun(1, 9, [("b", PLAIN)]),
        ScreenRun(2, 2, [("█", PLAIN)]),
        ScreenRun(3, 2, [("c", PLAIN)]),
    ):
        pen.write(run)
    assert pen.finish() == "\x1b[1;10Ha\x1b[2;10Hb\x1b[3;3H█\x1b[4;3Hc"

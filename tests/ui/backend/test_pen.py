"""The way to a cell, and from one look to another, in as few bytes as there are."""

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
        pytest.param(None, (4, 0), "\x1b[5H", id="the first of a line"),
        pytest.param(None, (4, 9), "\x1b[5;10H", id="from nowhere"),
        pytest.param((4, 9), (4, 9), "", id="here already"),
        pytest.param((4, 9), (4, 10), "\x1b[C", id="one to the right"),
        pytest.param((4, 9), (4, 14), "\x1b[5C", id="along the line"),
        pytest.param((4, 9), (4, 7), "\b\b", id="a little back"),
        pytest.param((4, 9), (4, 2), "\x1b[7D", id="back"),
        pytest.param((4, 9), (4, 0), "\r", id="to the edge"),
        pytest.param((4, 9), (5, 8), "\x1b[B\b", id="below"),
        pytest.param((4, 9), (6, 0), "\x1b[7H", id="two below at the edge"),
        pytest.param((4, 9), (3, 9), "\x1b[4;10H", id="above"),
        pytest.param((14, 99), (19, 20), "\x1b[20;21H", id="far away"),
    ],
)
def test_a_move_takes_the_shortest_way(at, to, written):
    assert move(at, *to) == written


@pytest.mark.parametrize(
    ("old", "new", "written"),
    [
        pytest.param(RESET, ("0", "32", "49"), "\x1b[32m", id="a colour"),
        pytest.param(RESET, ("0;2", "32", "49"), "\x1b[2;32m", id="an attribute needs no reset where none is on"),
        pytest.param(("0;2", "32", "49"), ("0;1", "32", "49"), "\x1b[0;1;32m", id="an attribute goes"),
        pytest.param(("0;1", "32", "49"), ("0;1", "33", "49"), "\x1b[33m", id="the colour alone"),
        pytest.param(("0;1", "32", "41"), RESET, "\x1b[m", id="nothing is left"),
    ],
)
def test_a_look_changes_by_what_differs(old, new, written):
    assert change(old, new) == written


def test_numbers_below_each_other_are_written_below_each_other():
    rows = [ScreenRun(y, x, [("7", style)]) for y in range(3) for x, style in ((10, GREEN), (40, PLAIN))]
    assert [(run.x, run.y) for run in in_columns(rows)] == [(10, 0), (10, 1), (10, 2), (40, 0), (40, 1), (40, 2)]
    pen = Pen(ColorSystem.STANDARD, 80)
    for run in in_columns(rows):
        pen.write(run)
    assert pen.finish() == "\x1b[1;11H\x1b[32m7\x1b[B\b7\x1b[B\b7\x1b[1;41H\x1b[m7\x1b[B\b7\x1b[B\b7"


def test_from_the_edge_and_behind_other_characters_than_ascii_another_line_is_reached_by_its_number():
    pen = Pen(ColorSystem.STANDARD, 10)
    for run in (
        ScreenRun(0, 9, [("a", PLAIN)]),
        ScreenRun(1, 9, [("b", PLAIN)]),
        ScreenRun(2, 2, [("█", PLAIN)]),
        ScreenRun(3, 2, [("c", PLAIN)]),
    ):
        pen.write(run)
    assert pen.finish() == "\x1b[1;10Ha\x1b[2;10Hb\x1b[3;3H█\x1b[4;3Hc"

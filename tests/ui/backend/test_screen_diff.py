"""`ScreenDiff` writes few bytes that produce the same screen as Textual's own output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, InlineUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from gputui.ui.backend.screen_diff import ScreenDiff
from tests.ui.terminal import Terminal

SYSTEMS = {"16": "standard", "256": "256", "truecolor": "truecolor"}
CONSOLES = {
    name: Console(color_system=system, force_terminal=True, legacy_windows=False, _environ={})
    for name, system in SYSTEMS.items()
}
LOOKS = [
    Style(),
    Style(color="red"),
    Style(color="#336699", bgcolor="#101010"),
    Style(color="#336699", bgcolor="#101010", bold=True),
    Style(bold=True),
    Style(reverse=True, dim=True),
    Style(underline=True, italic=True, strike=True, color="bright_blue"),
    Style(color="default", bgcolor="default"),
    Style(bgcolor="color(200)"),
]
CHARACTERS = ["a", "b", " ", "█", "▏", "宽", "🔥", "é", "e\u0301", "宽\u0301", "…", "─"]

texts = st.lists(st.sampled_from(CHARACTERS), min_size=1, max_size=6).map("".join)
segments = st.builds(Segment, texts, st.sampled_from(LOOKS), st.none())


def strips(width: int) -> st.SearchStrategy[Strip]:
    """Strips of exactly `width` cells, as widgets make them."""
    return st.lists(segments, max_size=4).map(lambda parts: Strip(parts).adjust_cell_length(width, LOOKS[0]))


@dataclass(frozen=True)
class Step:
    """One step of a story: an update, and whether the difference is sent to the terminal after it."""

    update: CompositorUpdate | None
    is_sent: bool
    is_forgotten: bool = False


@st.composite
def stories(draw: st.DrawFn) -> tuple[int, int, list[Step]]:
    """A terminal's size, and updates as Textual makes them: whole layouts, and changed parts between fixed cuts."""
    width, height = draw(st.integers(4, 24)), draw(st.integers(1, 3))
    steps = [Step(draw(layouts(width, height)), is_sent=True)]
    for _ in range(draw(st.integers(1, 4))):
        update = draw(st.one_of(layouts(width, height), chops(width, height)))
        steps.append(Step(update, draw(st.booleans()), draw(st.integers(0, 9)) == 0))
    return width, height, [*steps, Step(None, is_sent=True)]


def layouts(width: int, height: int) -> st.SearchStrategy[LayoutUpdate]:
    cut = st.integers(1, width - 1)
    line = cut.flatmap(lambda at: st.tuples(strips(at), strips(width - at)).map(list))
    lines = st.lists(line, min_size=height, max_size=height)
    return lines.map(lambda drawn: LayoutUpdate(drawn, Region(0, 0, width, height)))


@st.composite
def chops(draw: st.DrawFn, width: int, height: int) -> ChopsUpdate:
    lines, ends, spans = [], [], []
    for y in range(height):
        cuts = sorted({0, width, *draw(st.lists(st.integers(1, width - 1), max_size=3))})
        pairs = list(pairwise(cuts))
        lines.append({left: draw(st.none() | strips(right - left)) for left, right in pairs})
        ends.append([right for _, right in pairs])
        first = draw(st.integers(0, len(pairs) - 1))
        last = draw(st.integers(first, len(pairs) - 1))
        spans.append((y, pairs[first][0], pairs[last][1]))
    return ChopsUpdate(lines, spans, ends)


def own_bytes(update: CompositorUpdate, console: Console) -> str:
    """What Textual itself would write; cached ANSI codes are cleared because they belong to the first console used."""
    for look in LOOKS:
        look._ansi = None
    return update.render_segments(console)


@settings(deadline=None, max_examples=100)
@given(system=st.sampled_from(sorted(SYSTEMS)), story=stories())
def test_the_difference_produces_the_same_screen_as_textual(
    system: str, story: tuple[int, int, Sequence[Step]]
) -> None:
    width, height, steps = story
    console = CONSOLES[system]
    ours, theirs = Terminal(width, height), Terminal(width, height)
    diff = ScreenDiff(console._color_system or ColorSystem.TRUECOLOR)
    for step in steps:
        if step.update is not None:
            assert diff.take(step.update, width, height)
            theirs.feed(own_bytes(step.update, console))
        if step.is_forgotten:
            diff.forget()
            ours = Terminal(width, height)
        if step.is_sent:
            ours.feed(diff.difference())
    assert ours.cells == theirs.cells
    assert diff.difference() == ""


def one_line(text: str, style: Style = LOOKS[1]) -> LayoutUpdate:
    return LayoutUpdate([[Strip([Segment(text, style)])]], Region(0, 0, len(text), 1))


def difference_to(diff: ScreenDiff, text: str, style: Style = LOOKS[1]) -> str:
    assert diff.take(one_line(text, style), len(text), 1)
    return diff.difference()


def test_an_unchanged_screen_costs_nothing() -> None:
    diff = ScreenDiff(ColorSystem.TRUECOLOR)
    assert "hello" in difference_to(diff, "hello")
    assert difference_to(diff, "hello") == ""


@pytest.mark.parametrize(
    ("after", "written"),
    [
        pytest.param("abcdefghXj", "\x1b[1;9H\x1b[31mX\x1b[m", id="one cell is sent alone"),
        pytest.param("XbcYefghij", "\x1b[H\x1b[31mXbcY\x1b[m", id="nearby cells are sent in one run"),
        pytest.param("XbcdefghiY", "\x1b[H\x1b[31mX\x1b[8CY\x1b[m", id="distant cells are sent with a cursor move"),
    ],
)
def test_only_cells_that_differ_are_sent(after: str, written: str) -> None:
    diff = ScreenDiff(ColorSystem.TRUECOLOR)
    difference_to(diff, "abcdefghij")
    assert difference_to(diff, after) == written


def test_a_change_of_only_the_colour_is_sent() -> None:
    diff = ScreenDiff(ColorSystem.TRUECOLOR)
    difference_to(diff, "ab", Style(color="red"))
    assert difference_to(diff, "ab", Style(color="green")) == "\x1b[H\x1b[32mab\x1b[m"


def test_after_forget_every_cell_is_sent() -> None:
    diff = ScreenDiff(ColorSystem.TRUECOLOR)
    first = difference_to(diff, "abc")
    diff.forget()
    assert diff.difference() == first


def test_after_a_resize_every_cell_is_sent() -> None:
    diff = ScreenDiff(ColorSystem.TRUECOLOR)
    difference_to(diff, "abc")
    assert "abcd" in difference_to(diff, "abcd")


def test_other_kinds_of_updates_are_left_to_textual() -> None:
    assert not ScreenDiff(ColorSystem.TRUECOLOR).take(InlineUpdate([]), 3, 1)


def test_a_frame_drawn_for_a_wider_screen_is_cut() -> None:
    """After a resize, Textual may still paint widgets at their old places."""
    frames = ScreenDiff(ColorSystem.EIGHT_BIT)
    strip = Strip([Segment("beyond", LOOKS[0])])
    assert frames.take(LayoutUpdate([[strip]], Region(0, 0, 6, 1)), 4, 2)
    assert frames.take(LayoutUpdate([[strip]], Region(7, 1, 6, 1)), 4, 2)
    assert "beyo" in frames.difference()
    assert frames.take(LayoutUpdate([[strip]], Region(0, 1, 6, 1)), 4, 2)
    assert "beyo" in frames.difference()

"""The Memory screen: the bar of all memory, its legend, and the timeline of the counters."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from gputui.explain.memory.parts import Part, parts_of
from gputui.model.attached.target import Mark, Swing
from gputui.model.attached.timeline import Timeline
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.attach.memory import draw_bar, draw_legend
from gputui.ui.drawing.attach.timeline import STEP_COLUMNS, Axis, draw_timeline, draw_title
from gputui.ui.drawing.line import text_of, width_of
from gputui.ui.drawing.meters import ASCII
from gputui.ui.screens.attach.memory import MemoryScreen
from gputui.units import GIB, MIB
from tests.explain.moments import Tensor, moment, row
from tests.ui.attach.sitting import sitting

TASTE = Appearance()
PLAIN = Appearance(glyphs=ASCII)


def part(key: str, letter: str, count: int) -> Part:
    return Part(key, letter, key, count)


def growing(*sizes_mib: float, **keywords):
    """Moments one second apart, each with one tensor of the given size."""
    moments = (moment(row(Tensor(size, "x"), free=64), time=100.0 + i, **keywords) for i, size in enumerate(sizes_mib))
    return tuple(moments)


@pytest.mark.parametrize("width", [1, 3, 10, 80, 200])
def test_a_bar_fills_its_width_exactly(width):
    parts = [part("parameter", "P", 700), part("stuck", "s", 1), part("free", ".", 299)]
    assert [width_of(line) for line in draw_bar(parts, width, TASTE)] == [width]


def test_the_smallest_part_gets_a_cell_and_the_rest_is_to_scale():
    parts = [part("parameter", "P", 500 * GIB), part("stuck", "s", 1), part("free", ".", 500 * GIB)]
    assert text_of(draw_bar(parts, 21, PLAIN)) == "P=========s.........."


def test_the_largest_parts_get_the_cells_of_a_short_bar():
    parts = [part("parameter", "P", 10), part("stuck", "s", 1), part("free", ".", 100)]
    assert text_of(draw_bar(parts, 2, PLAIN)) == "P."


@pytest.mark.parametrize("width", [38, 80, 120])
def test_the_legend_lists_every_part(width):
    parts = parts_of(moment(row(Tensor(10, "x"), free=4), used_mib=538).devices[0])
    text = text_of(draw_legend(parts, 80 * GIB, width, TASTE))
    assert all(part.name[:10] in text for part in parts)


def timeline(moments, width=6, cursor=None, marks=()):
    axis = Axis(Timeline(*moments).counters(0), width, 1.0, moments[-1].time)
    return text_of(draw_timeline(axis, 2, cursor, marks, PLAIN)).split("\n")


def test_the_newest_moment_is_on_the_right_and_allocated_covers_reserved():
    assert timeline(growing(64, 64)) == ["    ::", "    ##", ""]


def test_between_what_a_step_leaves_and_what_it_needs_is_a_band():
    quiet, watched = growing(32, 32)
    swing = Swing(0, 32 * MIB, 80 * MIB, 30.0, 0.5)
    watched = replace(watched, devices=tuple(replace(device, swing=swing) for device in watched.devices))
    *rows, _ = timeline((quiet, watched))
    assert [row[4:] for row in rows] == [":=", "##"]
    axis = Axis(Timeline(quiet, watched).counters(0), 80, 1.0, watched.time)
    title = text_of((draw_title(axis, None, 80, PLAIN),))
    assert title.startswith(" # left after a step, = within it, : cached; top ")


def test_a_wide_timeline_scrolls_in_steps_and_always_shows_the_newest_moment():
    firsts = []
    for end in range(1000, 1032):
        axis = Axis(Timeline(moment(row(Tensor(8, "x")), time=float(end))).counters(0), 120, 1.0, float(end))
        assert 120 - STEP_COLUMNS <= axis.column_of(end) < 120
        assert axis.columns[axis.column_of(end)] is not None
        firsts.append(-axis.column_of(0))
    assert len(set(firsts)) == 32 // STEP_COLUMNS


def test_events_are_drawn_below_their_moments():
    quiet, refused = growing(64)[0], moment(row(Tensor(64, "x"), free=64), time=101.0, num_ooms=1)
    retried = moment(row(Tensor(64, "x"), free=64), time=102.0, num_ooms=1, num_alloc_retries=3)
    assert timeline((quiet, refused, retried))[-1] == "    !r"


def test_marks_and_the_cursor_are_drawn_below_their_moments():
    moments = growing(64, 64, 64)
    assert timeline(moments, cursor=101.0, marks=[Mark(100.2, "begin")])[-1] == "   m^"


async def test_the_cursor_moves_back_in_time_and_the_numbers_follow():
    async with sitting(*growing(10, 20, 30, used_mib=600), size=(120, 40)) as at:
        assert "allocated 30.0 MiB" in at.text
        await at.press("left")
        assert "allocated 20.0 MiB" in at.text
        await at.press("left", "left", "left")
        assert "allocated 10.0 MiB" in at.text
        await at.press("n")
        assert "allocated 30.0 MiB" in at.text


async def test_moving_past_the_newest_moment_returns_to_the_present():
    async with sitting(*growing(10, 20)) as at:
        await at.press("left", "right", "right")
        assert at.app.attached.targets.current.cursor is None


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50), (40, 12), (20, 5), (1, 1)])
async def test_every_terminal_size_is_drawn_within_its_width(size):
    async with sitting(*growing(10, 20, used_mib=600), size=size) as at:
        assert max(map(len, at.text.splitlines()), default=0) <= size[0]


async def test_moments_that_arrive_together_are_kept_and_drawn_once(monkeypatch):
    drawn = []
    original = MemoryScreen.draw
    monkeypatch.setattr(MemoryScreen, "draw", lambda screen: drawn.append(screen) or original(screen))
    moments = growing(*range(1, 31))
    async with sitting(moments[0]) as at:
        drawn.clear()
        for newer in moments[1:]:
            at.feed.deal(newer)  # nothing is awaited between moments, so the screen cannot draw
        await at.settle()
        kept = at.app.attached.targets.current.timeline.counters(0).last(inf)
        assert [counted.time for counted in kept] == [moment.time for moment in moments]
        assert "allocated 30.0 MiB" in at.text
        assert 1 <= len(drawn) <= 2


async def test_a_moment_that_arrives_after_closing_is_ignored():
    async with sitting(*growing(10)) as at:
        pass
    at.feed.deal(growing(20)[0])
    at.app.on_moments_taken()


async def test_m_sets_a_mark_and_s_requests_a_scan():
    async with sitting(*growing(10, 20)) as at:
        await at.press("m", "s")
        assert at.feed.marks == ["mark 1"]
        assert "scan" in at.feed.looks


async def test_a_digit_opens_each_screen_and_escape_returns_to_the_monitor():
    async with sitting(*growing(10, 20)) as at:
        for key, name in zip("123456", ("memory", "why", "map", "tensors", "changes", "ranks"), strict=True):
            await at.press(key)
            assert at.screen == name
            await at.press("escape")
            assert at.screen == ""
            at.app.attached.attach(at.feed.pid)
            await at.settle()


async def test_after_the_clock_was_set_back_the_screen_goes_on():
    before = [moment(row(Tensor(8, "model.weight")), time=time) for time in (5000.0, 5001.0)]
    after = [moment(row(Tensor(64, "model.weight")), time=time) for time in (100.0, 101.0)]
    async with sitting(*before, *after) as at:
        await at.press("1")
        assert at.app.attached.targets.current.timeline.latest is after[-1]
        assert "64.0 MiB" in at.text
        late = moment(row(Tensor(8, "model.weight")), time=99.0)
        at.app.attached.targets.take(late)
        assert at.app.attached.targets.current.timeline.latest is after[-1]

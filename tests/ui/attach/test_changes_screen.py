"""The Changes screen: what was allocated and freed between two marks, or a mark and now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.explain.owners.changes import changes
from gputui.model.attached.target import Mark
from gputui.model.attached.tensors import Category
from gputui.ui.drawing.attach.changes import End, draw_changes
from gputui.ui.drawing.line import text_of, width_of
from tests.explain.moments import Tensor, moment, row
from tests.ui.attach.sitting import sitting

WEIGHT = Tensor(8, "model.weight", Category.PARAMETER)
GRADIENT = Tensor(8, "model.weight.grad", Category.GRADIENT)
FIRST, SECOND = Mark(99.5, "start"), Mark(100.5, "after backward")

ONE = moment(row(WEIGHT, Tensor(2, "mask")), time=100.0, marks=(FIRST,))
TWO = moment(row(WEIGHT), row(GRADIENT, GRADIENT, address=1 << 40), time=101.0, marks=(FIRST, SECOND))
THREE = moment(row(WEIGHT), time=102.0, marks=(FIRST, SECOND))


def drawn(width: int) -> list:
    ends = (End("start", 99.5, 100.0), End("now", 101.0, 101.0))
    return draw_changes(changes(ONE.devices[0], TWO.devices[0]), ends, width)


def test_groups_are_printed_with_count_shape_and_type():
    assert text_of(drawn(100)) == (
        " From start  00:01:39  look taken 0.5 s later\n"
        " To   now    00:01:41  look taken at that time\n"
        "\n"
        " reserved         10.0 MiB    24.0 MiB  +14.0 MiB\n"
        " allocated        10.0 MiB    24.0 MiB  +14.0 MiB\n"
        " peak reserved    10.0 MiB    24.0 MiB  +14.0 MiB\n"
        " peak allocated   10.0 MiB    24.0 MiB  +14.0 MiB\n"
        "\n"
        " + 16.0 MiB allocated in 2 blocks, - 2.0 MiB freed in 1 block, 8.0 MiB stayed\n"
        " + 2 x (2097152,) float32 Tensor                             16.0 MiB  gradient  model.weight.grad\n"
        " - 1 x (524288,) float32 Tensor                               2.0 MiB  activation  mask"
    )


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_no_line_is_wider_than_the_screen(width):
    assert max(map(width_of, drawn(width))) <= width


async def test_without_a_mark_it_shows_how_to_set_one():
    async with sitting(replace(ONE, marks=())) as at:
        await at.press("5")
        assert "m sets one now" in at.text
        await at.press("f", "t", "m")
        assert at.feed.marks == ["mark 1"]


async def test_a_mark_under_a_cursor_in_the_past_is_said_to_be_of_now():
    async with sitting(ONE, TWO) as at:
        await at.press("m")
        assert at.notices[-1] == "mark 3 is set; the Changes screen compares with it."
        await at.press("left", "m")
        assert at.notices[-1] == "mark 3 is set now, not at the cursor; the Changes screen compares with it."


async def test_it_starts_with_the_last_mark_and_now():
    async with sitting(ONE, TWO, THREE) as at:
        await at.press("5")
        for size in ((80, 24), (120, 40), (200, 50)):
            await at.resize(*size)
            assert " From after backward" in at.text, size
            assert " To   now" in at.text, size
            assert "+ 0 B allocated in 0 blocks, - 16.0 MiB freed in 2 blocks, 8.0 MiB stayed" in at.text, size
            assert "- 2 x (2097152,) float32 Tensor" in at.text, size


async def test_f_and_t_choose_among_the_marks_and_now():
    async with sitting(ONE, TWO, THREE) as at:
        await at.press("5", "f")
        assert " From start " in at.text
        assert "- 2.0 MiB freed in 1 block" in at.text
        await at.press("t")
        assert " To   after backward" in at.text
        assert "+ 16.0 MiB allocated in 2 blocks" in at.text
        await at.press("T")
        assert " To   now" in at.text
        await at.press("F", "F")
        assert " From now" in at.text
        assert "Nothing was allocated or freed." in at.text


async def test_the_chosen_ends_survive_leaving_the_screen():
    async with sitting(ONE, TWO, THREE) as at:
        await at.press("5", "f", "t", "2", "5")
        assert " From start " in at.text
        assert " To   after backward" in at.text
        await at.press("escape")
        at.app.attached.attach(at.feed.pid)
        await at.press("5")
        assert " To   after backward" in at.text


async def test_now_advances_while_a_chosen_mark_stays():
    async with sitting(ONE, TWO) as at:
        await at.press("5", "f")
        assert "+ 16.0 MiB allocated in 2 blocks" in at.text
        await at.deal(THREE)
        assert " From start " in at.text
        assert "+ 0 B allocated in 0 blocks, - 2.0 MiB freed in 1 block" in at.text

"""The Ranks screen: all attached processes side by side, and those that differ from the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.explain.ranks.memory import Rank, ranks_of, sentence
from gputui.model.attached.moment import TargetMoment
from gputui.model.collectives import Launched
from gputui.ui.drawing.attach.ranks import RANK_COLUMNS, draw_odd, rows_of
from gputui.ui.drawing.line import text_of, width_of
from tests.explain.maps import segment
from tests.explain.moments import Tensor, moment, row
from tests.ui.attach.sitting import sitting
from tests.ui.test_collectives import Answers


def rank(number: int, mib: float, **counters: int) -> TargetMoment:
    """The moment of rank `number` with one tensor of `mib` MiB."""
    plain = moment(row(Tensor(mib, "x")), **counters)
    return replace(plain, greeting=replace(plain.greeting, pid=100 + number, rank=number, world_size=8))


def job(*sizes_mib: float) -> tuple[Rank, ...]:
    return ranks_of([rank(number, mib) for number, mib in enumerate(sizes_mib)])


def odd(ranks: tuple[Rank, ...]) -> list[list[str]]:
    return [[oddity.name for oddity in rank.oddities] for rank in ranks]


def test_a_rank_that_holds_more_is_reported_with_the_difference():
    ranks = job(1000, 1001, 1002, 1300)
    assert odd(ranks) == [[], [], [], ["reserved", "allocated", "peak"]]
    assert sentence(ranks[3], 4) == (
        "Rank 3, PID 103 on device 0: 298 MiB more reserved than the median of 4"
        " (298 MiB more allocated, 298 MiB more allocated at its peak)."
    )


def test_a_rank_that_holds_less_is_reported():
    assert "PID 101 on device 0: 500 MiB less reserved than the median of 3" in sentence(job(1000, 500, 1000)[1], 3)


@pytest.mark.parametrize("sizes_mib", [(1000, 3000), (1, 1, 40), (10_000, 10_000, 10_900)])
def test_two_ranks_and_small_differences_are_not_odd(sizes_mib):
    assert not any(odd(job(*sizes_mib)))


def test_a_rank_at_another_point_of_its_step_is_not_odd():
    peak = {"peak_allocated_bytes": 2 << 30, "reserved_bytes": 2 << 30}
    assert not any(odd(ranks_of([rank(number, mib, **peak) for number, mib in enumerate((100, 100, 1900))])))


def test_a_rank_without_a_look_does_not_count_as_zero():
    looked = [rank(number, 100) for number in range(3)]
    stuck = moment(row(Tensor(100, "x"), free=900))
    late = replace(looked[0], devices=tuple(replace(device, layout=None) for device in looked[0].devices))
    ranks = ranks_of([late, *looked, stuck])
    assert [oddity.name for oddity in ranks[-1].oddities] == ["reserved", "stuck"]
    assert not ranks[0].oddities


@pytest.mark.parametrize("width", [20, 80, 200])
def test_no_line_is_wider_than_the_screen(width):
    assert max(map(width_of, draw_odd(job(100, 100, 100, 800, 800.5), width))) <= width


def test_of_many_odd_ranks_the_first_three_are_named_and_the_rest_counted():
    text = text_of(draw_odd(job(*[100] * 9, 900, 800, 700, 600, 500), 200))
    assert text.count("!") == 3
    assert "   2 more are marked below." in text
    assert text.index("Rank 9,") < text.index("Rank 10,") < text.index("Rank 11,")


def test_ranks_that_hold_about_the_same_are_reported():
    assert text_of(draw_odd(job(100, 100, 100), 80)) == " All 3 ranks hold about the same memory."
    assert draw_odd(job(100, 900), 80) == []


def test_a_rank_that_keeps_another_waiting_stands_above_all_else():
    ranks = [
        replace(rank(number, 100), time=60.0, groups=(Launched("", "0", "dp", 0, 2, number, 8 - number, 10.0),))
        for number in range(2)
    ]
    assert text_of(draw_odd(ranks_of(ranks), 80)) == (
        " ! Rank 1 (PID 101) has kept 1 rank waiting for 50 s: it has launched 7\n   collectives in dp, the other 8."
    )


def test_the_rank_that_keeps_others_waiting_is_marked():
    launched = next(column for column in RANK_COLUMNS if column.name == "collectives")
    ranks = [
        replace(rank(number, 100), time=60.0, groups=(Launched("", "0", "dp", 0, 3, number, 8 - (number == 1), 10.0),))
        for number in range(3)
    ]
    assert [launched.text(row)[0] for row in rows_of(ranks_of(ranks))] == ["8", "! 7", "8"]


async def test_enter_on_a_rank_shows_its_memory():
    async with sitting(moment(segment(("live", 20)))) as at:
        await at.press("6")
        assert "20.0 MiB" in at.text
        await at.press("enter")
        assert at.screen == "memory"


async def test_c_asks_nccl_in_the_process_under_the_cursor_where_that_is_offered():
    async with sitting(moment(segment(("live", 20)))) as at:
        await at.press("6")
        assert "c Who is behind" not in at.text
        at.app.attached.inquirer = answers = Answers()
        await at.press("6", "c")
        await at.until(lambda: type(at.app.screen).__name__ == "Confirm")
        assert f"Ask NCCL in process {at.app.attached.targets.current.feed.pid} which rank" in at.text
        assert answers.left == []

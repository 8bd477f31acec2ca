"""The pace of automatic looks, on a clock of the test's own."""

from __future__ import annotations

import pytest

from gputui.probe.pace.pace import (
    AVERAGED,
    EAGER_S,
    EAGER_SHARE,
    EAGER_WITHIN_S,
    MIN_INTERVAL_S,
    SHARE_OF_TIME,
    TREND_LOOKS,
    Pace,
)


class Clock:
    """Stands still until it is put forward."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def settled(clock: Clock, cost_s: float, wall_clock: Clock | None = None) -> Pace:
    """A pace that has seen enough looks to tell what grows."""
    pace = Pace(clock, wall_clock)
    for _ in range(max(AVERAGED, TREND_LOOKS)):
        pace.account(cost_s)
    return pace


def test_the_first_look_is_due_at_once() -> None:
    assert Pace(Clock()).is_due


@pytest.mark.parametrize(
    ("cost_s", "interval_s"),
    [
        (0.0, MIN_INTERVAL_S),
        (0.5 * MIN_INTERVAL_S * SHARE_OF_TIME, MIN_INTERVAL_S),
        (0.027, 3.0),
        (0.9, 100.0),
    ],
)
def test_a_look_puts_off_the_next_by_what_it_has_cost(cost_s: float, interval_s: float) -> None:
    clock = Clock()
    pace = settled(clock, cost_s)
    pace.account(cost_s)
    clock.now_s += interval_s - 0.01
    assert not pace.is_due
    clock.now_s += 0.02
    assert pace.is_due
    assert cost_s / interval_s <= 0.0091
    pace.account(0.0)
    assert not pace.is_due


def test_what_one_look_has_waited_for_a_processor_is_spread_over_the_next_ones() -> None:
    clock = Clock()
    pace, cost_s, one_s = settled(clock, 0.02), 0.02, 1.3
    began_s, taken = clock.now_s, 0
    pace.account(one_s)
    longest_s, before_s = 0.0, clock.now_s
    while taken < 2 * AVERAGED:
        if pace.is_due:
            longest_s, before_s = max(longest_s, clock.now_s - before_s), clock.now_s
            pace.account(cost_s)
            taken += 1
        clock.now_s += 0.01
    assert longest_s < (one_s + AVERAGED * cost_s) / AVERAGED / SHARE_OF_TIME + 0.1
    assert (one_s + taken * cost_s) / (clock.now_s - began_s) <= 1.1 * SHARE_OF_TIME


@pytest.mark.parametrize("offset_s", [0.0, 0.3, 7.9])
def test_ranks_look_at_the_same_moments_of_the_wall_clock(offset_s: float) -> None:
    clocks = [Clock(), Clock()]
    costs_s = (0.0, 0.027)  # intervals of 1 and of 3 s
    clocks[0].now_s += offset_s
    shared: list[set[int]] = []
    for clock, cost_s in zip(clocks, costs_s, strict=True):
        pace, began_s, moments = settled(clock, cost_s, clock), clock.now_s, set()
        pace.account(cost_s)
        clock.now_s += max(MIN_INTERVAL_S, cost_s / SHARE_OF_TIME) / 2 - 0.02
        assert not pace.is_due
        while clock.now_s < began_s + 60:
            if pace.is_due:
                moments.add(round(clock.now_s * 10))
                pace.account(cost_s)
            clock.now_s += 0.01
        shared.append(moments)
        assert all(moment % 10 == 0 for moment in moments)
        assert 60 / (2 * max(MIN_INTERVAL_S, cost_s / SHARE_OF_TIME)) <= len(moments) <= 61
    both = {moment for moment in shared[1] if min(shared[0]) <= moment <= max(shared[0])}
    assert both
    assert both <= shared[0]


def test_whoever_has_just_attached_waits_for_half_of_the_time_until_looks_have_taken_enough() -> None:
    clock = Clock()
    pace, cost_s, began_s = Pace(clock), 0.05, clock.now_s
    looks = 0
    while pace.is_eager:
        pace.account(cost_s, goes_on=True)
        looks += 1
        while not pace.is_due:
            clock.now_s += 0.001
    assert looks == round(EAGER_S / cost_s)
    assert clock.now_s - began_s == pytest.approx(EAGER_S / EAGER_SHARE, rel=0.1)
    pace.account(cost_s, goes_on=True)
    clock.now_s += cost_s / SHARE_OF_TIME - 0.01
    assert not pace.is_due


@pytest.mark.parametrize(("cost_s", "looks"), [(0.08, TREND_LOOKS), (0.4, 4)])
def test_the_first_looks_follow_each_other_at_the_shortest_interval(cost_s: float, looks: int) -> None:
    clock = Clock()
    pace, taken, began_s = Pace(clock), 0, clock.now_s
    while clock.now_s < began_s + TREND_LOOKS * MIN_INTERVAL_S:
        if pace.is_due:
            pace.account(cost_s)
            taken += 1
        clock.now_s += 0.01
    assert taken == looks
    assert taken * cost_s <= EAGER_S + cost_s


def test_once_all_is_named_nobody_waits_any_more() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.account(0.005, goes_on=False)
    assert not pace.is_eager
    clock.now_s += MIN_INTERVAL_S - 0.01
    assert not pace.is_due


def test_what_has_no_name_later_in_the_first_minute_is_looked_for_at_once_as_well() -> None:
    clock = Clock()
    pace, cost_s = Pace(clock), 0.02
    pace.account(cost_s, goes_on=False)
    for later_s, is_eager in ((EAGER_WITHIN_S / 2, True), (EAGER_WITHIN_S / 2, False)):
        clock.now_s += later_s
        pace.account(cost_s, goes_on=True)
        assert pace.is_eager is is_eager

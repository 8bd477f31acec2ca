"""The pace of automatic looks, on a clock of the test's own."""

from __future__ import annotations

import pytest

from gputui.probe.pace import MIN_INTERVAL_S, SHARE_OF_TIME, Pace


class Clock:
    """Stands still until it is put forward."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


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
    pace = Pace(clock)
    pace.account(cost_s)
    clock.now_s += interval_s - 0.01
    assert not pace.is_due
    clock.now_s += 0.02
    assert pace.is_due
    assert cost_s / interval_s <= 0.0091
    pace.account(0.0)
    assert not pace.is_due

"""How far memory rises and falls, told from reads on a clock of the test's own."""

from __future__ import annotations

import pytest

from gputui.probe.looks import swing
from gputui.probe.looks.swing import PARTS, DeviceReads

GIB = 2**30
STEP_S, REQUESTS = 1.0, 100
"""A step of the program below, and how often it requests memory."""


class Clock:
    """Stands for `perf_counter`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(swing, "perf_counter", made)
    return made


def allocated_at(at: float) -> int:
    """Of a program whose steps rise from 1 GiB to 5 GiB in the first half, and fall back in the second."""
    phase = at / STEP_S % 1.0
    return int(GIB * (1 + 8 * min(phase, 1 - phase)))


def watched(clock: Clock, seconds: float, every_s: float, watch: DeviceReads | None = None) -> DeviceReads:
    made = watch or DeviceReads()
    ends_at = clock.now + seconds
    while clock.now < ends_at:
        made.add(allocated_at(clock.now), int(clock.now / STEP_S * REQUESTS), is_held=False)
        clock.now += every_s
    return made


def test_the_range_and_the_length_of_a_step_are_found(clock: Clock) -> None:
    fields = watched(clock, 10.0, 0.021).fields(0)
    assert fields["lowest_allocated_bytes"] == pytest.approx(GIB, rel=0.2)
    assert fields["highest_allocated_bytes"] == pytest.approx(5 * GIB, rel=0.05)
    assert fields["step_s"] == pytest.approx(STEP_S, rel=0.1)


def test_reads_that_may_have_missed_steps_tell_no_length(clock: Clock) -> None:
    assert watched(clock, 30.0, 0.7).step_s == 0.0


def test_close_reads_once_tell_the_length_for_the_rest(clock: Clock) -> None:
    made = watched(clock, 5.0, 0.021)
    assert watched(clock, 30.0, 0.7, made).step_s == pytest.approx(STEP_S, rel=0.1)


def test_what_is_older_than_a_minute_is_forgotten(clock: Clock) -> None:
    made = watched(clock, 5.0, 0.021)
    for _ in range(PARTS + 2):
        clock.now += 1.1
        made.add(2 * GIB, int(clock.now * REQUESTS), is_held=False)
    assert (made.whole.lowest, made.whole.highest) == (2 * GIB, 2 * GIB)
    assert not made.whole.is_wide


def test_a_backward_pass_is_not_where_a_look_can_be_taken(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swing, "is_in_backward", lambda: allocated_at(clock.now) > 3 * GIB)
    made = watched(clock, 5.0, 0.021)
    assert made.whole.highest > 4 * GIB
    assert made.whole.reachable <= 3 * GIB


def test_memory_that_hardly_moves_is_not_wide(clock: Clock) -> None:
    made = DeviceReads()
    for number in range(100):
        clock.now += 0.02
        made.add(GIB + number % 2 * GIB // 100, number, is_held=False)
    assert not made.whole.is_wide
    assert made.step_s == 0.0

"""The timeline of an attached process, whose memory is bounded."""

from __future__ import annotations

from gputui.model.timeline import POINTS, WHOLE_MOMENTS, Timeline
from tests.explain.moments import Tensor, moment, row


def at(time: float, mib: float = 1):
    return moment(row(Tensor(mib, "x")), time=time)


def test_a_time_between_two_moments_shows_the_earlier_one():
    timeline = Timeline()
    early, late = at(1.0), at(2.0)
    timeline.add(early)
    timeline.add(late)
    assert timeline.at(1.5) is early
    assert timeline.at(2.0) is late
    assert timeline.latest is late


def test_a_moment_that_is_not_newer_is_dropped():
    timeline = Timeline()
    timeline.add(at(2.0))
    timeline.add(at(1.0))
    assert [point.time for point in timeline.points] == [2.0]


def test_steps_stop_at_the_first_and_last_moment():
    timeline = Timeline()
    for time in (1.0, 2.0, 3.0):
        timeline.add(at(time))
    assert timeline.step(3.0, -1) == 2.0
    assert timeline.step(1.0, -5) == 1.0
    assert timeline.step(2.0, 9) == 3.0


def test_old_moments_keep_only_their_counters():
    timeline = Timeline()
    for second in range(WHOLE_MOMENTS + 10):
        timeline.add(at(float(second + 1), mib=second + 1))
    old = timeline.at(3.0)
    assert old is not None
    assert old.devices[0].layout is None
    assert old.devices[0].statistics.allocated_bytes == 3 << 20


def test_memory_is_bounded():
    timeline = Timeline()
    for second in range(POINTS + 50):
        timeline.add(at(float(second + 1)))
    assert len(timeline.points) == POINTS
    assert len(timeline.moments) == WHOLE_MOMENTS

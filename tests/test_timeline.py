"""The timeline of an attached process: what it answers about any time, and that its memory is bounded."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from random import Random

import pytest

from gputui.model.attached.levels import LEVELS, Highest, Level, Levels
from gputui.model.attached.moment import CounterPoint
from gputui.model.attached.target import Mark
from gputui.model.attached.timeline import LOOKS_AMONG_MANY, LOOKS_AT_LEAST, WHOLE_MOMENTS, Timeline
from tests.explain.moments import Tensor, moment, row

FEW = (Level(0.0, 12), Level(1.0, 12), Level(10.0, 20), Level(60.0, 30))


def at(time: float, mib: float = 1, **counters):
    return moment(row(Tensor(mib, "x")), time=time, **counters)


def times(timeline: Timeline, window_s: float = inf):
    return [counted.time for counted in timeline.counters(0).last(window_s)]


def test_a_time_between_two_moments_shows_the_earlier_one():
    timeline = Timeline()
    early, late = at(1.0), at(2.0)
    timeline.add(early)
    timeline.add(late)
    assert timeline.at(1.5) is early
    assert timeline.at(2.0) is late
    assert timeline.latest is late


def test_a_moment_that_is_not_newer_is_dropped():
    assert times(Timeline(at(2.0), at(1.0))) == [2.0]


def test_steps_stop_at_the_first_and_last_moment():
    timeline = Timeline(*map(at, (1.0, 2.0, 3.0)))
    assert timeline.step(3.0, -1) == 2.0
    assert timeline.step(1.0, -5) == 1.0
    assert timeline.step(2.0, 9) == 3.0


def test_old_moments_keep_only_their_counters():
    timeline = Timeline(*(at(float(second + 1), mib=second + 1) for second in range(WHOLE_MOMENTS + 10)))
    old = timeline.at(3.0)
    assert old is not None
    assert old.devices[0].layout is None
    assert old.devices[0].statistics.allocated_bytes == 3 << 20


def test_each_look_is_kept_once_with_its_first_moment():
    moments = [replace(at(float(second)), look_time=second // 3 * 3.0) for second in range(1, 2 * WHOLE_MOMENTS)]
    timeline = Timeline(*moments)
    assert timeline.looks(inf)[-1].time == timeline.moments[-1].look_time
    assert {one.look_time for one in timeline.looks(inf)} == {one.look_time for one in timeline.moments}
    assert [one.time for one in timeline.looks(130.0)][-2:] == [126.0, 129.0]


def test_when_a_count_rose_is_known_at_any_time_after():
    timeline = Timeline(*(at(float(n), num_ooms=2 + (n > 10) + (n > 20)) for n in range(1, 2 * WHOLE_MOMENTS)))
    newest, before, early = (timeline.counters(0, until) for until in (200.0, 15.0, 10.0))
    assert newest.first.statistics.num_ooms == 2
    assert newest.rises("num_ooms") == (11.0, 21.0)
    assert before.rises("num_ooms") == (11.0, 11.0)
    assert early.rises("num_ooms") is None
    assert newest.rises("num_alloc_retries") is None


class Sample(CounterPoint):
    """A sample, told apart from others by its time."""


@pytest.fixture(params=range(4))
def watched(request):
    """Levels of few samples, and all samples that they took: at a steady pace, in bursts, with gaps."""
    random, time, samples = Random(request.param), 1000.0, []
    levels = Levels(FEW)
    for _ in range(4000):
        time += random.choice((0.1, 1.0, 1.0, 7.0, 200.0 if request.param == 3 else 1.0))
        samples.append(Sample(time))
        levels.add(samples[-1])
    return levels, samples, random


def test_the_last_sample_until_a_time_is_found_among_all_levels(watched):
    levels, samples, random = watched
    oldest, newest = samples[0].time, samples[-1].time
    kept = {levels.first} | {one for _, some in levels._kept for one in some}
    for _ in range(300):
        time = newest - (newest - oldest) * random.random() ** 4
        assert levels.at(time) is max((one for one in kept if one.time <= time), key=lambda one: one.time)
    assert levels.at(oldest - 1) is None


def test_the_last_samples_are_those_of_the_window_and_end_with_the_newest(watched):
    levels, samples, _ = watched
    newest = samples[-1].time
    for window_s in (0.0, 1.0, 5.0, 60.0, 900.0, inf):
        found = levels.last(window_s, newest)
        assert found[-1] is samples[-1]
        assert all(one.time >= newest - window_s for one in found)
        assert len(found) <= max(level.count for level in FEW) + 1
    assert levels.last(0.5, newest) == tuple(one for one in samples if one.time >= newest - 0.5)


def test_a_cell_of_a_graph_has_the_last_sample_of_its_time(watched):
    levels, samples, _ = watched
    newest = samples[-1].time
    for span_s, count in ((1.0, 10), (2.0, 5), (10.0, 15), (60.0, 20)):
        first = int(newest / span_s) + 1 - count
        true = [None] * count
        for one in samples:
            if 0 <= int(one.time / span_s) - first < count:
                true[int(one.time / span_s) - first] = one
        assert levels.per_cell(first, count, span_s) == true


def test_steps_back_from_the_newest_sample_reach_the_oldest_that_is_kept(watched):
    levels, samples, _ = watched
    time, steps = samples[-1].time, 0
    while (before := levels.before(time)) is not None:
        assert levels.next(before.time).time <= time
        time, steps = before.time, steps + 1
    assert time == min(kept[0].time for _, kept in levels._kept)
    assert steps <= sum(level.count for level in FEW)


def test_the_highest_value_since_a_time_is_known_to_a_minute():
    random, highest, values = Random(1), Highest(), []
    for second in range(20_000):
        value = int(1e6 * random.random() ** 2) if second % 3 else 1000 - second // 20
        values.append(value)
        highest.add(float(second), value)
    for since in (0, 1, 5000, 19_000, 19_990, 19_999):
        assert max(values[since:]) <= highest.since(since) <= max(values[max(0, since - 60) :])
    assert highest.since(20_000.0) == 0


@pytest.mark.parametrize("days", [1, 7])
def test_memory_is_bounded_for_a_day_and_a_week(days):
    levels, highest = Levels(), Highest()
    for second in range(0, days * 86_400, 2):
        levels.add(Sample(float(second)))
        highest.add(float(second), days * 86_400 - second)
    assert [len(kept) for _, kept in levels._kept] == [
        min(level.count, days * 86_400 // max(2, int(level.span_s))) for level in LEVELS
    ]
    assert len(highest._falling) <= days * 1440 + 1


def test_whole_moments_are_bounded():
    timeline = Timeline(*(at(float(second + 1)) for second in range(WHOLE_MOMENTS + 50)))
    assert len(timeline.moments) == WHOLE_MOMENTS
    assert len(timeline.looks(inf)) <= WHOLE_MOMENTS + 1


def test_looks_at_many_blocks_are_bounded_by_these(monkeypatch):
    monkeypatch.setattr("gputui.model.attached.timeline.BLOCKS_AT_MOST", 200)
    timeline = Timeline(*(at(float(second + 1)) for second in range(50)))
    assert len(timeline.moments) == 50
    many = [moment(row(*[Tensor(1, f"x{n}") for n in range(100)]), time=51.0 + n) for n in range(100)]
    for each in many:
        timeline.add(each)
        assert len(timeline.looks(inf)) >= LOOKS_AT_LEAST
    assert list(timeline.moments) == many[-LOOKS_AT_LEAST:]
    assert timeline._blocks == 100 * LOOKS_AT_LEAST


def test_many_processes_share_what_is_kept(monkeypatch):
    monkeypatch.setattr("gputui.model.attached.timeline.BLOCKS_AT_MOST", 5000)
    monkeypatch.setattr("gputui.model.attached.timeline.BLOCKS_OF_ALL", 25_000)
    blocks = row(*[Tensor(1, f"x{n}") for n in range(100)])
    marks = tuple(Mark(float(number), str(number)) for number in range(1, 41))
    moments = [moment(blocks, time=float(n), marks=marks[:n]) for n in range(1, 51)]
    alone, few, many, crowd = (Timeline() for _ in range(4))
    for among, timeline in ((1, alone), (5, few), (25, many), (64, crowd)):
        timeline.share(among)
        for each in moments:
            timeline.add(each)
    assert [len(each.moments) for each in (alone, few, many, crowd)] == [50, 50, 10, LOOKS_AMONG_MANY]
    assert [len(each.marked) for each in (alone, few, many, crowd)] == [40, 40, 10, LOOKS_AMONG_MANY]
    assert all(kept.time == mark.time for mark, kept in crowd.marked)
    assert crowd.marked == crowd.copy().marked == alone.marked[-LOOKS_AMONG_MANY:]

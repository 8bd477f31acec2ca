"""History: means over fixed spans, in three resolutions, bounded."""

from __future__ import annotations

import pytest

from gputui.model.history import POINTS, SPANS_S, History, Series


def series(*readings: tuple[float, float], span_s: float = 2.0) -> Series:
    made = Series(span_s)
    for time, value in readings:
        made.add(time, value)
    return made


@pytest.mark.parametrize(
    ("readings", "count", "time", "points"),
    [
        pytest.param([], 2, 10.0, [None, None], id="nothing read"),
        pytest.param([(10.0, 1.0)], 2, 10.0, [None, 1.0], id="one reading"),
        pytest.param([(10.0, 1.0), (11.9, 3.0)], 1, 11.9, [2.0], id="a span has the mean of its readings"),
        pytest.param([(10.0, 1.0), (12.0, 3.0)], 2, 12.0, [1.0, 3.0], id="spans begin at multiples"),
        pytest.param([(10.0, 1.0), (16.0, 3.0)], 4, 16.0, [1.0, None, None, 3.0], id="a gap stays a gap"),
        pytest.param([(10.0, 1.0)], 3, 14.0, [1.0, None, None], id="a pause shifts the points"),
        pytest.param([(10.0, 1.0)], 3, 100.0, [None, None, None], id="a long pause leaves no points"),
        pytest.param([(10.0, 1.0), (8.0, 9.0)], 2, 10.0, [None, 1.0], id="a reading from the past is dropped"),
        pytest.param([(10.0, 1.0), (12.0, 2.0)], 1, 10.0, [1.0], id="later readings are not shown"),
    ],
)
def test_points(readings, count, time, points):
    assert series(*readings).last(count, time) == points


def test_a_graph_advances_by_whole_points():
    grown = series(*((float(second), float(second)) for second in range(20)))
    before = grown.last(5, 18.0)
    grown.add(19.5, 100.0)
    assert grown.last(5, 19.5)[:4] == before[:4]


def test_memory_is_bounded():
    long = series(*((2.0 * number, 1.0) for number in range(3 * POINTS)))
    assert long.last(3 * POINTS, 2.0 * 3 * POINTS - 2).count(1.0) == POINTS


@pytest.mark.parametrize("zoom", range(len(SPANS_S)))
def test_each_resolution_has_its_span(zoom):
    history = History()
    for second in range(120):
        history.add(float(second), "GPU-0", [("power_w", 300.0)])
    filled = [point for point in history.last("GPU-0", "power_w", POINTS, zoom) if point is not None]
    assert filled == [300.0] * int(120 / SPANS_S[zoom])


def test_an_unknown_series_is_empty():
    assert History().last("GPU-0", "power_w", 3) == [None, None, None]


def test_series_of_removed_owners_are_forgotten():
    history = History()
    history.add(1.0, "GPU-0", [("power_w", 1.0)])
    history.add(1.0, "GPU-1", [("power_w", 2.0)])
    history.forget({"GPU-1"})
    assert history.last("GPU-0", "power_w", 1) == [None]
    assert history.last("GPU-1", "power_w", 1) == [2.0]


def test_a_clock_that_goes_back_does_not_move_the_graph_back():
    history = History()
    history.add(100.0, "GPU-0", [("power_w", 1.0)])
    history.add(50.0, "GPU-0", [("power_w", 9.0)])
    assert history.time == 100.0
    assert history.last("GPU-0", "power_w", 1) == [1.0]

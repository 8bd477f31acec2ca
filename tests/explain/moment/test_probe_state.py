"""What the state makes of messages that contradict themselves."""

from __future__ import annotations

from dataclasses import replace

from gputui.explain.moment.probe_state import ProbeState, after, moment_among
from gputui.model.attached.moment import Surroundings
from gputui.model.attached.target import Statistics
from tests.explain.maps import layout, segment, statistics
from tests.explain.moments import GREETING, Tensor, moment, row


def test_a_device_that_is_sent_twice_is_shown_once():
    counted = statistics(layout(segment(("live", 2))))
    twice = Statistics(1.0, (counted, replace(counted, num_ooms=7)), None)
    shown = moment_among(after(ProbeState(GREETING), twice), Surroundings(1.0)).devices
    assert [(device.index, device.statistics.num_ooms) for device in shown] == [(0, 7)]


def test_readings_of_before_the_clock_was_set_back_do_not_count():
    counted = statistics(layout(segment(("live", 2))))
    state = ProbeState(GREETING)
    for second in (*range(1000, 1100), *range(900, 1025)):
        grown = replace(counted, allocated_bytes=(second % 100) << 30)
        state = after(state, Statistics(float(second), (grown,), None))
    assert [time for time, _ in state.readings] == [float(second) for second in range(900, 1025)]
    assert not state.wants_look


def test_growth_by_the_counters_asks_for_a_look_unless_a_new_one_is_complete():
    def state_of(rate_mib: int, look_time: float, *, is_complete: bool = True) -> ProbeState:
        seen = moment(row(Tensor(8, "x")), time=look_time, is_complete=is_complete).look
        state = ProbeState(GREETING, look=seen)
        for second in range(40):
            counted = replace(seen.statistics[0], allocated_bytes=(100 + rate_mib * second) << 20)
            state = after(state, Statistics(1000.0 + second, (counted,), None))
        return state

    assert state_of(10, look_time=1000.0).wants_look
    assert state_of(10, look_time=1035.0, is_complete=False).wants_look
    assert not state_of(10, look_time=1035.0).wants_look
    assert not state_of(0, look_time=1000.0).wants_look

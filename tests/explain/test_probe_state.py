"""What the state makes of messages that contradict themselves."""

from __future__ import annotations

from dataclasses import replace

from gputui.explain.probe_state import ProbeState, after, moment_among
from gputui.model.moment import Surroundings
from gputui.model.target import Statistics
from tests.explain.maps import layout, segment, statistics
from tests.explain.moments import GREETING


def test_a_device_that_is_sent_twice_is_shown_once():
    counted = statistics(layout(segment(("live", 2))))
    twice = Statistics(1.0, (counted, replace(counted, num_ooms=7)), None)
    shown = moment_among(after(ProbeState(GREETING), twice), Surroundings(1.0)).devices
    assert [(device.index, device.statistics.num_ooms) for device in shown] == [(0, 7)]

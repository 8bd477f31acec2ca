"""From NVML's figure down to the requested bytes, with absent and outdated figures."""

from __future__ import annotations

import pytest

from gputui.explain.memory.bridge import bridge
from gputui.explain.memory.release import predict_device
from gputui.model.reading import Absent
from gputui.units import MIB
from tests.explain.maps import layout, segment, statistics

MAP = layout(segment(("live", 4), ("waits", 6), ("free", 10), slack=1000))
NO_RIGHT = Absent("insufficient permissions")


def levels(process: int | Absent, device: int | Absent, *, with_map: bool = True):
    parts = predict_device(MAP, 0).composition if with_map else None
    return bridge(statistics(MAP), process_used_bytes=process, device_used_bytes=device, composition=parts)


def test_each_level_is_the_sum_of_its_parts():
    bridge = levels(538 * MIB, 600 * MIB)
    assert bridge.other_processes_bytes == 62 * MIB
    assert bridge.outside_torch_bytes == 518 * MIB
    assert bridge.reserved_bytes == bridge.inactive_bytes + bridge.active_bytes == 20 * MIB
    assert bridge.active_bytes == bridge.pending_bytes + bridge.allocated_bytes == 10 * MIB
    assert bridge.allocated_bytes == bridge.rounding_bytes + bridge.requested_bytes == 4 * MIB
    assert bridge.rounding_bytes == 1000


def test_without_a_map_the_levels_come_from_counters():
    assert levels(538 * MIB, 600 * MIB, with_map=False).requested_bytes == 10 * MIB - 2000


ABSENT = {
    "the process is absent": (NO_RIGHT, 600 * MIB, NO_RIGHT, NO_RIGHT),
    "the device is absent": (538 * MIB, NO_RIGHT, 518 * MIB, NO_RIGHT),
}


@pytest.mark.parametrize(("process", "device", "outside", "others"), ABSENT.values(), ids=ABSENT.keys())
def test_levels_that_nvml_does_not_report_are_absent(process, device, outside, others):
    bridge = levels(process, device)
    assert (bridge.outside_torch_bytes, bridge.other_processes_bytes) == (outside, others)


def test_a_process_figure_below_reserved_gives_a_reason_not_a_negative():
    bridge = levels(12 * MIB, 600 * MIB)
    assert isinstance(bridge.outside_torch_bytes, Absent)
    assert "12.0 MiB" in bridge.outside_torch_bytes.reason
    assert "20.0 MiB" in bridge.outside_torch_bytes.reason


def test_a_device_figure_below_its_process_gives_a_reason():
    assert isinstance(levels(700 * MIB, 600 * MIB).other_processes_bytes, Absent)

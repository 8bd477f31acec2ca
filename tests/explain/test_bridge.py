"""From NVML's figure down to what was asked for, with absent figures and late ones."""

from __future__ import annotations

import pytest

from gputui.explain.bridge import bridge
from gputui.explain.release import predict_device
from gputui.model.reading import Absent
from gputui.units import MIB
from tests.explain.maps import layout, segment, statistics

MAP = layout(segment(("live", 4), ("waits", 6), ("free", 10), slack=1000))
NO_RIGHT = Absent("insufficient permissions")


def levels(process: int | Absent, device: int | Absent, *, with_map: bool = True):
    parts = predict_device(MAP, 0).composition if with_map else None
    return bridge(statistics(MAP), process_used_bytes=process, device_used_bytes=device, composition=parts)


def test_each_level_holds_the_next():
    found = levels(538 * MIB, 600 * MIB)
    assert found.other_processes_bytes == 62 * MIB
    assert found.outside_torch_bytes == 518 * MIB
    assert found.reserved_bytes == found.inactive_bytes + found.active_bytes == 20 * MIB
    assert found.active_bytes == found.pending_bytes + found.allocated_bytes == 10 * MIB
    assert found.allocated_bytes == found.rounding_bytes + found.requested_bytes == 4 * MIB
    assert found.rounding_bytes == 1000


def test_without_a_map_the_counters_do():
    assert levels(538 * MIB, 600 * MIB, with_map=False).requested_bytes == 10 * MIB - 2000


ABSENT = {
    "the process is absent": (NO_RIGHT, 600 * MIB, NO_RIGHT, NO_RIGHT),
    "the device is absent": (538 * MIB, NO_RIGHT, 518 * MIB, NO_RIGHT),
}


@pytest.mark.parametrize(("process", "device", "outside", "others"), ABSENT.values(), ids=ABSENT.keys())
def test_what_nvml_does_not_tell_stays_absent(process, device, outside, others):
    found = levels(process, device)
    assert (found.outside_torch_bytes, found.other_processes_bytes) == (outside, others)


def test_a_figure_below_reserved_is_absent_with_its_reason_never_negative():
    found = levels(12 * MIB, 600 * MIB)
    assert isinstance(found.outside_torch_bytes, Absent)
    assert "12.0 MiB" in found.outside_torch_bytes.reason
    assert "20.0 MiB" in found.outside_torch_bytes.reason


def test_a_device_below_its_process_is_absent_with_its_reason():
    assert isinstance(levels(700 * MIB, 600 * MIB).other_processes_bytes, Absent)

"""A device's whole memory in parts, each byte once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.explain.parts import parts_of
from gputui.model.tensors import Category
from gputui.units import MIB
from tests.explain.moments import Tensor, moment, row

WEIGHT = Tensor(10, "model.weight", Category.PARAMETER)
SAVED = Tensor(6, "logits", Category.ACTIVATION)


def sizes(found) -> dict[str, int]:
    return {part.key: part.bytes for part in found}


@pytest.mark.parametrize("others_mib", [0, 300], ids=["alone", "beside others"])
def test_the_parts_add_up_to_the_device(others_mib):
    device = moment(row(WEIGHT, SAVED, free=4), used_mib=538, others_mib=others_mib).devices[0]
    assert sum(sizes(parts_of(device)).values()) == device.driver.device_total_bytes


def test_each_part_has_its_bytes():
    device = moment(row(WEIGHT, SAVED, free=4), used_mib=538, others_mib=300).devices[0]
    found = sizes(parts_of(device))
    assert found["others"] == 300 * MIB
    assert found["outside"] == 518 * MIB
    assert found["parameter"] == 10 * MIB
    assert found["activation"] == 6 * MIB
    assert found["stuck"] == 4 * MIB
    assert "releasable" not in found


def test_what_nothing_pins_is_releasable():
    free = row(free=20, address=1 << 41)
    assert sizes(parts_of(moment(row(WEIGHT), free).devices[0]))["releasable"] == 20 * MIB


def test_without_nvml_there_is_what_pytorch_has_reserved_alone():
    device = moment(row(WEIGHT, free=4)).devices[0]
    found = sizes(parts_of(device))
    assert sum(found.values()) == device.statistics.reserved_bytes
    assert not {"others", "outside", "driver", "free"} & found.keys()


def test_without_a_look_there_are_counters_alone():
    device = replace(moment(row(WEIGHT, free=4), used_mib=538).devices[0], layout=None)
    found = sizes(parts_of(device))
    assert found["allocated"] == 10 * MIB
    assert found["cached"] == 4 * MIB

"""A device's memory divided into parts, each byte counted once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.explain.memory.parts import OUTER, drawn, parts_of
from gputui.model.attached.tensors import Category
from gputui.units import MIB
from tests.explain.moments import Tensor, moment, row

WEIGHT = Tensor(10, "model.weight", Category.PARAMETER)
SAVED = Tensor(6, "logits", Category.ACTIVATION)


def sizes(parts) -> dict[str, int]:
    return {part.key: part.bytes for part in parts}


@pytest.mark.parametrize("others_mib", [0, 300], ids=["alone", "beside others"])
def test_the_parts_add_up_to_the_device(others_mib):
    device = moment(row(WEIGHT, SAVED, free=4), used_mib=538, others_mib=others_mib).devices[0]
    assert sum(sizes(parts_of(device)).values()) == device.driver.device_total_bytes


def test_each_part_has_its_bytes():
    device = moment(row(WEIGHT, SAVED, free=4), used_mib=538, others_mib=300).devices[0]
    bytes_by_part = sizes(parts_of(device))
    assert bytes_by_part["others"] == 300 * MIB
    assert bytes_by_part["outside"] == 518 * MIB
    assert bytes_by_part["parameter"] == 10 * MIB
    assert bytes_by_part["activation"] == 6 * MIB
    assert bytes_by_part["stuck"] == 4 * MIB
    assert "releasable" not in bytes_by_part


def test_free_memory_without_blockers_is_releasable():
    free = row(free=20, address=1 << 41)
    assert sizes(parts_of(moment(row(WEIGHT), free).devices[0]))["releasable"] == 20 * MIB


def test_without_nvml_the_parts_cover_reserved_memory_alone():
    device = moment(row(WEIGHT, free=4)).devices[0]
    bytes_by_part = sizes(parts_of(device))
    assert sum(bytes_by_part.values()) == device.statistics.reserved_bytes
    assert not {"others", "outside", "driver", "free"} & bytes_by_part.keys()


def test_without_a_look_the_parts_come_from_counters():
    device = replace(moment(row(WEIGHT, free=4), used_mib=538).devices[0], layout=None)
    bytes_by_part = sizes(parts_of(device))
    assert bytes_by_part["allocated"] == 10 * MIB
    assert bytes_by_part["cached"] == 4 * MIB


@pytest.mark.parametrize(
    ("allocated_mib", "reserved_mib"),
    [(16, 20), (30, 40), (12, 20), (2, 20), (0, 0), (16, 60), (16, 17)],
    ids=["unchanged", "grown", "a tensor freed", "most freed", "all released", "more cache", "less cache"],
)
def test_parts_of_an_older_look_add_up_to_the_newest_counters(allocated_mib, reserved_mib):
    device = moment(row(WEIGHT, SAVED, free=4), used_mib=538).devices[0]
    counters = replace(
        device.statistics, allocated_bytes=allocated_mib * MIB, active_bytes=allocated_mib * MIB,
        reserved_bytes=reserved_mib * MIB,
    )  # fmt: skip
    for parts in (some := parts_of(replace(device, statistics=counters)), drawn(some)):
        assert sum(part.bytes for part in parts if part.key not in OUTER) == reserved_mib * MIB
    assert min((part.bytes for part in drawn(some)), default=0) >= 0
    assert sizes(some)["parameter"] == 10 * MIB


def test_a_kv_cache_is_a_part_of_its_own():
    cache = Tensor(8, "past_key_values.layers[0].keys", Category.KV_CACHE)
    (part,) = [part for part in parts_of(moment(row(WEIGHT, cache)).devices[0]) if part.key == "kv_cache"]
    assert (part.name, part.letter, part.bytes) == ("KV cache", "K", 8 * MIB)

"""Storages joined to blocks: every live block has an owner, and categories add up to allocated memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.explain.owners.owners import (
    block_bytes,
    bytes_by_category,
    foreign_bytes,
    grouped,
    owners_of,
    storage_bytes,
)
from gputui.model.attached.tensors import Category, Inventory, KnownSize, Storage
from gputui.units import KIB, MIB
from tests.explain.maps import BASE, layout, segment
from tests.explain.named import named


def storage(offset: int, size: int, owner: str = "w", category: Category = Category.PARAMETER, **changes) -> Storage:
    usual = {"type": "Parameter", "shape": (size // 4,), "dtype": "float32", "device": 0}
    return Storage(address=BASE + offset, size_bytes=size, owner=named(owner), category=category, **usual | changes)


def inventory(*storages: Storage) -> Inventory:
    return Inventory(storages, how="walk", is_of_one_moment=True)


THREE = segment(("live", 4), ("live", 2), ("free", 6), ("live", 8))


def test_a_storage_owns_the_block_it_begins():
    owners = owners_of(layout(THREE), inventory(storage(4 * MIB, MIB, "model.fc.bias")), 0)
    assert [owners[BASE + at * MIB].name for at in (0, 4, 12)] == ["", "model.fc.bias", ""]


def test_a_storage_inside_a_block_owns_the_block():
    owners = owners_of(layout(THREE), inventory(storage(5 * MIB, 512)), 0)
    assert owners[BASE + 4 * MIB].category is Category.PARAMETER


def test_the_largest_of_several_storages_in_a_block_names_it():
    storages = inventory(
        storage(0, 512, "view"), storage(512, MIB, "flat parameter"), storage(2 * MIB, 512, "other view")
    )
    assert owners_of(layout(THREE), storages, 0)[BASE].name == "flat parameter"


@pytest.mark.parametrize(
    ("offset", "device"), [(6 * MIB, 0), (20 * MIB, 0), (-512, 0), (0, 1)],
    ids=["in a free block", "after the segment", "before it", "on another device"],
)  # fmt: skip
def test_a_storage_elsewhere_owns_nothing(offset, device):
    storages = inventory(storage(offset, 512, device=device))
    owners = owners_of(layout(THREE), storages, 0)
    assert {owner.category for owner in owners.values()} == {Category.UNATTRIBUTED}
    assert foreign_bytes(layout(THREE), storages, 0) == (0 if device else 512)


def test_categories_count_whole_blocks_and_add_up_to_allocated():
    storages = inventory(storage(0, 3 * MIB), storage(12 * MIB, MIB, category=Category.GRADIENT))
    made = layout(THREE)
    sums = bytes_by_category(block_bytes(made, owners_of(made, storages, 0), 0))
    assert {category: count // MIB for category, count in sums.items() if count} == {
        Category.PARAMETER: 4,
        Category.GRADIENT: 8,
        Category.UNATTRIBUTED: 2,
    }
    assert set(sums) == set(Category)


WORKSPACE, COPY, UNATTRIBUTED = Category.WORKSPACE, Category.ACTIVATION, Category.UNATTRIBUTED
KNOWN = (
    KnownSize(0, 32 * MIB, WORKSPACE, "cuBLAS workspace"),
    KnownSize(0, 2 * MIB, COPY, "copy of a parameter (autocast)"),
    KnownSize(1, 8 * MIB, WORKSPACE, "cuBLAS workspace"),
)
SIZES = {
    "a workspace": ([32], [WORKSPACE]),
    "a third block of workspace size is unattributed": ([32, 32, 32], [WORKSPACE, WORKSPACE, UNATTRIBUTED]),
    "every copy is identified": ([2, 2, 2], [COPY, COPY, COPY]),
    "a size known on another device": ([8], [UNATTRIBUTED]),
    "another size": ([3], [UNATTRIBUTED]),
}


@pytest.mark.parametrize(("sizes", "expected"), SIZES.values(), ids=SIZES.keys())
def test_blocks_without_a_tensor_are_identified_by_requested_size(sizes, expected):
    made = layout(segment(*(("live", size) for size in sizes)))
    owners = owners_of(made, replace(inventory(), known_sizes=KNOWN), 0)
    assert [owner.category for owner in owners.values()] == expected


def test_each_stream_has_workspaces_of_its_own():
    made = layout(*(segment(("live", 32), ("live", 32), stream=stream, address=stream << 40) for stream in (1, 2)))
    owners = owners_of(made, replace(inventory(), known_sizes=KNOWN), 0)
    assert [owner.category for owner in owners.values()] == [WORKSPACE] * 4


def test_a_tensor_of_a_workspace_size_keeps_its_owner():
    made = layout(segment(("live", 32)))
    storages = replace(inventory(storage(0, 32 * MIB, "x")), known_sizes=KNOWN)
    assert owners_of(made, storages, 0)[BASE].category is Category.PARAMETER


def test_similar_blocks_are_grouped_largest_first():
    storages = inventory(
        storage(0, MIB, "a.weight"), storage(4 * MIB, MIB, "b.weight"), storage(12 * MIB, 4 * KIB, "bias")
    )
    made = layout(THREE)
    first, second = grouped(block_bytes(made, owners_of(made, storages, 0), 0))
    assert (first.names, first.count, first.bytes) == (("bias",), 1, 8 * MIB)
    assert (second.names, second.count, second.bytes) == (("a.weight", "b.weight"), 2, 6 * MIB)


def test_without_a_map_storages_are_grouped():
    storages = inventory(storage(0, MIB, "a"), storage(4 * MIB, MIB, "b"), storage(0, MIB, "c", device=1))
    (group,) = grouped(storage_bytes(storages, 0))
    assert (group.names, group.count, group.bytes) == (("a", "b"), 2, 2 * MIB)

"""What a look had no time for, from an earlier look: the names of blocks that are still there, or the map."""

from __future__ import annotations

from dataclasses import replace

from gputui.explain.owners import live_blocks, placed
from gputui.model.allocator import AllocatorMap
from gputui.model.target import Look
from gputui.model.tensors import HOST, Inventory, Storage

BlockKey = tuple[int, int, int, int]


def with_names_of(look: Look, named: Look | None) -> Look:
    """`look`; where it has no inventory, with the part of the inventory of `named`, an earlier look, that still holds.

    A block counts as the same if device, address, size and requested size are. That is no proof: one that was freed
    and allocated again in between looks the same, so the inventory carries the time it was taken.
    """
    if look.inventory is not None or named is None or named.inventory is None:
        return look
    kept = replace(named.inventory, storages=_still_there(look.map, named.map, named.inventory), time=named.time)
    return replace(look, inventory=kept)


def with_map_of(look: Look, earlier: Look | None) -> Look:
    """`look`; where it has tensors but there was no time for the map, with the map and counters of `earlier`."""
    if look.map is not None or look.inventory is None or earlier is None or earlier.map is None:
        return look
    inventory = replace(look.inventory, is_of_one_moment=False, time=look.inventory.time or look.time)
    return replace(look, map=earlier.map, statistics=earlier.statistics, inventory=inventory)


def _still_there(now: AllocatorMap | None, then: AllocatorMap | None, inventory: Inventory) -> tuple[Storage, ...]:
    """In the order of the inventory; storages outside PyTorch's blocks are dropped, since nothing tells about them."""
    on_host = [storage for storage in inventory.storages if storage.device == HOST]
    if now is None or then is None:
        return tuple(on_host)
    blocks = {key for device in _devices(now) for key in _keys(now, device)}
    kept = [
        storage
        for device in _devices(then)
        for storage, block in placed(list(live_blocks(then, device)), inventory, device)
        if block and (device, block.address, block.size_bytes, block.requested_bytes) in blocks
    ]
    return (*kept, *on_host)


def _keys(layout: AllocatorMap, device: int) -> list[BlockKey]:
    return [
        (device, block.address, block.size_bytes, block.requested_bytes) for _, block in live_blocks(layout, device)
    ]


def _devices(layout: AllocatorMap) -> set[int]:
    return {segment.device for segment in layout.segments}

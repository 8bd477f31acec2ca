"""Completes a look that had no time for some names, or for the map, from earlier looks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gputui.explain.owners.owners import live_blocks, placed
from gputui.model.attached.allocator import AllocatorMap
from gputui.model.attached.moment import DeviceLayout, TargetMoment
from gputui.model.attached.owners import OwnerKind
from gputui.model.attached.target import Look
from gputui.model.attached.tensors import HOST, NAMELESS, Category, Inventory, Storage
from gputui.units import format_bytes

EarlierLooks = tuple[Look | None, Look | None]
"""The newest look that has tensors, and the newest look of all, each completed from the looks before it."""

BlockKey = tuple[int, int, int, int]
"""Device, address, size and requested size of a block, sizes in bytes."""


def completed(look: Look, earlier: EarlierLooks) -> tuple[Look, EarlierLooks]:
    """The look, completed from earlier looks, and the looks from which the next one is to be completed."""
    named, before = earlier
    whole = with_map_of(with_names_of(look, named), before)
    return whole, (whole if look.inventory else named, whole)


def with_names_of(look: Look, named: Look | None) -> Look:
    """`look`, with names from `named`, an earlier look, for nameless blocks that are still there.

    A block counts as the same if device, address, size and requested size are the same. That is no proof: a block that
    was freed and allocated again in between looks the same. So a look without tensors takes the earlier inventory with
    its time. A complete walk takes only names of `OTHER` tensors, which it may not find again; a complete scan, none.
    """
    if named is None or named.inventory is None:
        return look
    earlier, own = named.inventory, look.inventory
    kept = _still_there(look.map, named.map, earlier)
    if own is None:
        newer = tuple(sorted(_newer(look.map, named.map) | _newer_still(look.map, earlier)))
        return replace(look, inventory=replace(earlier, storages=kept, time=named.time, newer=newer))
    if own.is_complete:
        kept = tuple(storage for storage in kept if storage.category is Category.OTHER) if own.how == "walk" else ()
    named_now = replace(own, storages=tuple(s for s in own.storages if not is_unnamed(s)))
    wanted = [storage for storage in kept if storage.device != HOST and not is_unnamed(storage)]
    added = _not_covered(look.map, named_now, wanted)
    return replace(look, inventory=replace(own, storages=(*added, *own.storages))) if added else look


def with_map_of(look: Look, earlier: Look | None) -> Look:
    """`look`, with the map and counters of `earlier` if it has tensors and had no time for the map."""
    if look.map is not None or look.inventory is None or earlier is None or earlier.map is None:
        return look
    inventory = replace(look.inventory, is_of_one_moment=False, time=look.inventory.time or look.time)
    return replace(look, map=earlier.map, statistics=earlier.statistics, inventory=inventory)


def _still_there(now: AllocatorMap | None, then: AllocatorMap | None, inventory: Inventory) -> tuple[Storage, ...]:
    """The storages whose blocks are still there, and host storages; those outside PyTorch's blocks are dropped."""
    on_host = [storage for storage in inventory.storages if storage.device == HOST]
    if now is None or then is None:
        return tuple(on_host)
    blocks = _all_keys(now)
    kept = [
        storage
        for device in _devices(then)
        for storage, block in placed(list(live_blocks(then, device)), inventory, device)
        if block and (device, block.address, block.size_bytes, block.requested_bytes) in blocks
    ]
    return (*kept, *on_host)


def is_unnamed(storage: Storage) -> bool:
    """Whether the probe knows the tensor but no variable that leads to it: "unnamed Tensor"."""
    return storage.owner.kind is OwnerKind.UNNAMED


def _not_covered(now: AllocatorMap | None, inventory: Inventory, kept: list[Storage]) -> list[Storage]:
    """The storages in `kept` whose blocks hold no storage of the inventory."""
    if now is None or not kept:
        return []
    earlier = replace(inventory, storages=tuple(kept))
    added = []
    for device in {storage.device for storage in kept}:
        blocks = list(live_blocks(now, device))
        covered = {block.address for _, block in placed(blocks, inventory, device) if block}
        added += [s for s, block in placed(blocks, earlier, device) if block and block.address not in covered]
    return added


def _newer(now: AllocatorMap | None, then: AllocatorMap | None) -> frozenset[tuple[int, int]]:
    """The blocks of `now` that were not in `then`."""
    if now is None or then is None:
        return frozenset()
    return frozenset((device, address) for device, address, *_ in _all_keys(now) - _all_keys(then))


def _newer_still(now: AllocatorMap | None, inventory: Inventory) -> frozenset[tuple[int, int]]:
    """The blocks that the inventory lists as newer than itself, if they are still there."""
    if now is None or not inventory.newer:
        return frozenset()
    return frozenset(inventory.newer) & {(device, address) for device, address, *_ in _all_keys(now)}


def _all_keys(layout: AllocatorMap) -> set[BlockKey]:
    return {key for device in _devices(layout) for key in _keys(layout, device)}


def _keys(layout: AllocatorMap, device: int) -> list[BlockKey]:
    return [
        (device, block.address, block.size_bytes, block.requested_bytes) for _, block in live_blocks(layout, device)
    ]


def _devices(layout: AllocatorMap) -> set[int]:
    return {segment.device for segment in layout.segments}


NAMED_WELL = 0.99
"""After a look that has named this share of the memory, no further look is needed for names."""


def is_well_named(layouts: Iterable[DeviceLayout]) -> bool:
    """Whether a look with these layouts has named nearly all memory on every device."""
    return all(_found_bytes(layout) >= NAMED_WELL * layout.statistics.allocated_bytes for layout in layouts)


def _found_bytes(layout: DeviceLayout) -> int:
    """The bytes with a better name than "unnamed Tensor"."""
    device = layout.statistics.device
    loose = [storage.size_bytes for storage in layout.storages if storage.device == device and is_unnamed(storage)]
    return named_bytes(layout) - sum(loose)


def look_gain(before: TargetMoment, after: TargetMoment) -> str:
    """What the look that the user asked for at `before` has named, in a sentence; "" if it has not come by `after`."""
    if after.look_time <= before.look_time or after.look is None or after.look.inventory is None:
        return ""
    layouts = [device.layout for device in after.devices if device.layout]
    if not layouts or any(layout.names_time < after.look_time for layout in layouts):
        return ""
    named = sum(map(named_bytes, layouts))
    earlier = sum(named_bytes(device.layout) for device in before.devices if device.layout)
    allocated = sum(layout.statistics.allocated_bytes for layout in layouts)
    gained = named - earlier
    what = f"named {format_bytes(gained)} more" if gained > 0 else "named nothing new"
    share = f"{named / allocated:.0%} of {format_bytes(allocated)}" if allocated else "all"
    pause = f" It paused the program for {after.look_cost.pause_ms:.0f} ms." if after.look_cost else ""
    return f"The look {what}: {share} has a known owner.{pause}"


def named_bytes(layout: DeviceLayout) -> int:
    """How many bytes of a look's live memory have a known owner."""
    return sum(size for category, size in layout.by_category.items() if category not in NAMELESS)

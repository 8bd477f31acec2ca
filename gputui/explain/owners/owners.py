"""The owner of each live block, from joining the inventory's storages to the allocator's blocks by address."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from gputui.explain.owners.tensor_paths import in_order, module_of
from gputui.model.attached.allocator import AllocatorMap, Block, BlockState, CallSite
from gputui.model.attached.analysis import Owner, TensorGroup
from gputui.model.attached.moment import DeviceLayout
from gputui.model.attached.owners import NOBODY, OwnerKind, OwnerName
from gputui.model.attached.tensors import Category, Inventory, KnownSize, Storage

UNATTRIBUTED = Owner(Category.UNATTRIBUTED, NOBODY)
NEWER = Owner(Category.NEWER, NOBODY)
GroupKey = tuple[Category, str, tuple[int, ...], str, str]

WORKSPACES_PER_STREAM = 2
"""PyTorch keeps one for each thread (the program's, autograd's) and stream: a third block is something else."""


def owners_of(layout: AllocatorMap, inventory: Inventory | None, device: int) -> dict[int, Owner]:
    """The owner of every live block of a device, by the block's address; `NEWER` or unattributed if none is known.

    Where several storages lie in one block (tensors placed in the memory of another), the largest gives the owner. An
    unattributed block is named after the line that allocated it, if the program recorded its memory history.
    """
    blocks = list(live_blocks(layout, device))
    largest: dict[int, Storage] = {}
    for storage, block in placed(blocks, inventory, device):
        if block and (block.address not in largest or storage.size_bytes > largest[block.address].size_bytes):
            largest[block.address] = storage
    named = {address: owner_of(storage) for address, storage in largest.items()}
    nameless = [(stream, block) for stream, block in blocks if block.address not in named]
    known = inventory.known_sizes if inventory else ()
    newer = frozenset(inventory.newer) if inventory else frozenset()
    unknown = {
        block.address: NEWER if (device, block.address) in newer else _by_site(block.site) for _, block in blocks
    }
    return unknown | _known_by_size(nameless, known, device) | named


def owner_of(storage: Storage) -> Owner:
    """The owner of the block in which this storage lies."""
    return Owner(
        storage.category,
        storage.owner,
        storage.type,
        storage.shape,
        storage.dtype,
        saved_by=storage.saved_by,
        module=storage.module,
        keeper=storage.keeper,
        kept_by=storage.kept_by,
        hidden_bytes=storage.hidden_bytes,
    )


def _by_site(site: CallSite | None) -> Owner:
    """The owner of an unattributed block: the line that allocated it, `models/gpt.py:31 (forward)`, if known."""
    if site is None:
        return UNATTRIBUTED
    line = f"{'/'.join(site.file.split('/')[-2:])}:{site.line}"
    return Owner(Category.UNATTRIBUTED, OwnerName(line, site.function, OwnerKind.LINE))


def keeper_address(layout: DeviceLayout, owner: Owner) -> int | None:
    """The address of the block whose tensor's autograd graph keeps this owner's storage; None if not on this device."""
    variable = owner.kept_by.path
    named = (address for address, other in layout.owners.items() if other.name.path == variable)
    return next(named, None)


def foreign_bytes(layout: AllocatorMap, inventory: Inventory | None, device: int) -> int:
    """Bytes of a device's storages that lie in no live block: memory that another process or library allocated."""
    blocks = list(live_blocks(layout, device))
    return sum(storage.size_bytes for storage, block in placed(blocks, inventory, device) if block is None)


def block_bytes(layout: AllocatorMap, owners: Mapping[int, Owner], device: int) -> Iterator[tuple[Owner, int]]:
    """The owner and the size of every live block of a device; the sizes add up to the allocated bytes."""
    return ((owners.get(block.address, UNATTRIBUTED), block.size_bytes) for _, block in live_blocks(layout, device))


def storage_bytes(inventory: Inventory, device: int) -> Iterator[tuple[Owner, int]]:
    """The owner and the size of every storage on a device, for allocators without a map."""
    return ((owner_of(storage), storage.size_bytes) for storage in inventory.storages if storage.device == device)


def bytes_by_category(members: Iterable[tuple[Owner, int]]) -> dict[Category, int]:
    """Bytes by category, with 0 for categories that no owner has."""
    sums = dict.fromkeys(Category, 0)
    for owner, size_bytes in members:
        sums[owner.category] += size_bytes
    return sums


def bytes_by_module(members: Iterable[tuple[Owner, int]]) -> dict[str, dict[Category, int]]:
    """Bytes by module and category, in the order of the modules' names; owners of no module are left out."""
    modules: dict[str, dict[Category, int]] = {}
    for owner, size_bytes in members:
        module = module_of(owner)
        if module:
            sums = modules.setdefault(module, {})
            sums[owner.category] = sums.get(owner.category, 0) + size_bytes
    return {module: modules[module] for module in sorted(modules, key=in_order)}


def grouped(members: Iterable[tuple[Owner, int]]) -> tuple[TensorGroup, ...]:
    """Groups of owners with the same category, type, shape and element type, those with most bytes first.

    Unattributed blocks are in one group if the same line allocated them.
    """
    alike: dict[GroupKey, list[tuple[int, OwnerName]]] = defaultdict(list)
    hidden: Counter[GroupKey] = Counter()
    saved: Counter[GroupKey] = Counter()
    for owner, size_bytes in members:
        line = owner.name if owner.category is Category.UNATTRIBUTED else ""
        key = owner.category, owner.type, owner.shape, owner.dtype, line
        alike[key].append((size_bytes, owner.name))
        if owner.hidden_bytes:
            hidden[key] += owner.hidden_bytes
        if owner.saved_by:
            saved[key] += size_bytes
    tensor_groups = (
        TensorGroup(*key[:4], len(members), sum(size for size, _ in members), _names(members), hidden[key], saved[key])
        for key, members in alike.items()
    )
    return tuple(sorted(tensor_groups, key=lambda group: (-group.bytes, group.category, group.names)))


def live_blocks(layout: AllocatorMap, device: int) -> Iterable[tuple[int, Block]]:
    """(stream, block) of each live block of a device, by ascending address."""
    segments = sorted((s for s in layout.segments if s.device == device), key=lambda segment: segment.address)
    return (
        (segment.stream, block)
        for segment in segments
        for block in segment.blocks
        if block.state is BlockState.ACTIVE_ALLOCATED
    )


def placed(
    blocks: list[tuple[int, Block]], inventory: Inventory | None, device: int
) -> Iterable[tuple[Storage, Block | None]]:
    """Each storage of a device with the live block in which it begins, None if it begins in none."""
    addresses = [block.address for _, block in blocks]
    for storage in inventory.storages if inventory else ():
        if storage.device != device:
            continue
        block = blocks[bisect_right(addresses, storage.address) - 1][1] if blocks else None
        is_inside = block is not None and 0 <= storage.address - block.address < block.size_bytes
        yield storage, block if is_inside else None


def _known_by_size(nameless: list[tuple[int, Block]], known: Iterable[KnownSize], device: int) -> dict[int, Owner]:
    """Owners of nameless blocks by their requested size; of workspaces only the lowest (oldest) of each stream."""
    sizes = {
        size.size_bytes: Owner(size.category, OwnerName(size.owner, kind=OwnerKind.WORDS), keeper=size.keeper)
        for size in known
        if size.device == device
    }
    workspaces: Counter[tuple[int, int]] = Counter()
    owners = {}
    for stream, block in nameless:
        owner = sizes.get(block.requested_bytes)
        if owner is None:
            continue
        if owner.category is Category.WORKSPACE:
            workspaces[stream, block.requested_bytes] += 1
        if owner is not UNATTRIBUTED and workspaces[stream, block.requested_bytes] <= WORKSPACES_PER_STREAM:
            owners[block.address] = owner
    return owners


def _names(members: list[tuple[int, OwnerName]]) -> tuple[OwnerName, ...]:
    return tuple(dict.fromkeys(name for _, name in members if name))

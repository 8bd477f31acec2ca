"""What `gc.collect()` would free, to the byte: the blocks that only reference cycles keep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gputui.explain.owners.names import counted
from gputui.model.attached.allocator import AllocatorMap, BlockState
from gputui.model.attached.analysis import Owner
from gputui.model.attached.moment import DeviceLayout
from gputui.model.attached.owners import Keeper, OwnerKind
from gputui.model.attached.target import Cycles, Garbage
from gputui.model.attached.tensors import Category, Storage
from gputui.units import format_bytes

BLOCK_BYTES = 512
"""PyTorch rounds requests up to a multiple of this: an estimate of a block's size where there is no map."""


LIKELY_SHARE = 0.01
"""Of the allocated memory: with less that no variable leads to, garbage is not searched for."""
Names = Mapping[tuple[int, int], Owner]
"""The owner of each block, by device and address."""


@dataclass(frozen=True, slots=True)
class CollectedGroup:
    """Cycles of one kind, and the bytes of the blocks that only these cycles keep."""

    cycles: Cycles
    bytes: int

    @property
    def words(self) -> str:
        """ "19 x Net that only cycles keep (hook (train.py:14) refers to the Net that holds it)"."""
        what = f"{self.cycles.count} x {self.cycles.type}" if self.cycles.count > 1 else f"a {self.cycles.type}"
        keep = "cycles keep" if self.cycles.count > 1 else "a cycle keeps"
        return f"{what} that only {keep} ({self.cycles.closed_by})"


@dataclass(frozen=True, slots=True)
class Collection:
    """What `gc.collect()` would free on one device, the largest group first; `addresses` are those of the storages."""

    groups: tuple[CollectedGroup, ...]
    addresses: frozenset[int]

    @property
    def freed_bytes(self) -> int:
        """The bytes that `gc.collect()` would move from live blocks to PyTorch's cache."""
        return sum(group.bytes for group in self.groups)

    @property
    def is_least(self) -> bool:
        """Whether the collection may free more than `freed_bytes`: see `Cycles`."""
        return any(group.cycles.is_least for group in self.groups)

    def is_met_by(self, freed_bytes: int) -> bool:
        """Whether this prediction is right, if the collection then freed `freed_bytes`."""
        return freed_bytes == self.freed_bytes or (self.is_least and freed_bytes > self.freed_bytes)

    @property
    def words(self) -> str:
        """ "1.2 GiB: 19 x Net that only cycles keep (...)"."""
        if not self.groups:
            return "nothing"
        least = "at least " if self.is_least else ""
        others = f", and {counted(len(self.groups) - 1, 'other kind')}" if len(self.groups) > 1 else ""
        return f"{least}{format_bytes(self.freed_bytes)}: {self.groups[0].words}{others}"


def collection_of(garbage: Garbage | None, block_map: AllocatorMap | None, device: int) -> Collection | None:
    """What `gc.collect()` would free on a device; None where it was not searched for, or is not known."""
    if garbage is None or garbage.reason:
        return None
    sizes = _sizes(block_map)
    on_device = [cycles for cycles in garbage.groups if cycles.device == device]
    groups = [CollectedGroup(cycles, _block_bytes(cycles, sizes)) for cycles in on_device]
    addresses = frozenset(address for cycles in on_device for address, _ in cycles.storages)
    return Collection(tuple(sorted(groups, key=lambda group: -group.bytes)), addresses)


def why_not_known(garbage: Garbage | None) -> str:
    """A sentence why it is not known what `gc.collect()` would free; "" if it is known, or was not searched for."""
    return f"What gc.collect() would free is not known: {garbage.reason}" if garbage and garbage.reason else ""


def still_there(garbage: Garbage | None, names: Names, block_map: AllocatorMap | None, now: Names) -> Garbage | None:
    """The part of the garbage that a newer map still has; None if nothing is left.

    `names` are the owners of the blocks when the garbage was found, `now` the owners in the newer map. A block that
    now has a variable of another name was freed and allocated again, so its garbage is gone.
    """
    if garbage is None or garbage.reason or not garbage.groups or block_map is None:
        return garbage
    sizes = _sizes(block_map)

    def is_left(device: int, address: int, size_bytes: int) -> bool:
        owner, earlier = now.get((device, address)), names.get((device, address))
        is_taken = owner is not None and _has_variable(owner) and (earlier is None or owner.name != earlier.name)
        return sizes.get((device, address), -1) >= size_bytes and not is_taken

    groups = []
    for cycles in garbage.groups:
        left = tuple(storage for storage in cycles.storages if is_left(cycles.device, *storage))
        if left:
            groups.append(replace(cycles, storages=left))
    return replace(garbage, groups=tuple(groups)) if groups else None


def likely_bytes(layouts: Iterable[DeviceLayout]) -> int:
    """Bytes that no variable leads to where looks have searched all: `gc.collect()` may free them; 0 if only few."""
    lost = allocated = 0
    for layout in layouts:
        allocated += layout.statistics.allocated_bytes
        if layout.is_searched:
            lost += layout.by_category.get(Category.UNATTRIBUTED, 0)
            lost += sum(storage.size_bytes for storage in layout.storages if _is_lost(storage))
    return lost if lost > LIKELY_SHARE * allocated else 0


def _is_lost(storage: Storage) -> bool:
    return storage.keeper in (Keeper.CYCLE, Keeper.LOST_EXCEPTION) or storage.owner.kind is OwnerKind.UNNAMED


def _has_variable(owner: Owner) -> bool:
    is_named = owner.category is not Category.UNATTRIBUTED and owner.name.kind is not OwnerKind.UNNAMED
    return is_named and owner.keeper is Keeper.NONE


def _sizes(block_map: AllocatorMap | None) -> dict[tuple[int, int], int]:
    return {
        (segment.device, block.address): block.size_bytes
        for segment in (block_map.segments if block_map else ())
        for block in segment.blocks
        if block.state is BlockState.ACTIVE_ALLOCATED
    }


def _block_bytes(cycles: Cycles, sizes: dict[tuple[int, int], int]) -> int:
    return sum(
        sizes.get((cycles.device, address), -(-size // BLOCK_BYTES) * BLOCK_BYTES) for address, size in cycles.storages
    )

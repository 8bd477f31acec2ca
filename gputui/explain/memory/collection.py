"""What `gc.collect()` would free, to the byte: the blocks that only reference cycles keep."""

from __future__ import annotations

from dataclasses import dataclass

from gputui.explain.owners.names import counted
from gputui.model.attached.target import Cycles, Look
from gputui.units import format_bytes

BLOCK_BYTES = 512
"""PyTorch rounds a request up to this; without a map that is all that is known of a block's size."""


@dataclass(frozen=True, slots=True)
class CollectedGroup:
    """Cycles of one kind, and the bytes of the blocks that they keep."""

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
    """What a collection frees on one device, the largest group first."""

    groups: tuple[CollectedGroup, ...]
    addresses: frozenset[int]

    @property
    def freed_bytes(self) -> int:
        """What PyTorch then has more of in its cache."""
        return sum(group.bytes for group in self.groups)

    @property
    def words(self) -> str:
        """ "1.2 GiB: 19 x Net that only cycles keep (...)"."""
        if not self.groups:
            return "nothing"
        others = f", and {counted(len(self.groups) - 1, 'other kind')}" if len(self.groups) > 1 else ""
        return f"{format_bytes(self.freed_bytes)}: {self.groups[0].words}{others}"


def collection_of(look: Look | None, device: int) -> Collection | None:
    """What a collection would free on a device by this look; None where that is not known."""
    if look is None or look.garbage is None or look.garbage.reason:
        return None
    sizes = {
        block.address: block.size_bytes
        for segment in (look.map.segments if look.map else ())
        if segment.device == device
        for block in segment.blocks
    }
    on_device = [cycles for cycles in look.garbage.groups if cycles.device == device]
    groups = [CollectedGroup(cycles, _block_bytes(cycles, sizes)) for cycles in on_device]
    addresses = frozenset(address for cycles in on_device for address, _ in cycles.storages)
    return Collection(tuple(sorted(groups, key=lambda group: -group.bytes)), addresses)


def _block_bytes(cycles: Cycles, sizes: dict[int, int]) -> int:
    return sum(sizes.get(address, -(-size // BLOCK_BYTES) * BLOCK_BYTES) for address, size in cycles.storages)

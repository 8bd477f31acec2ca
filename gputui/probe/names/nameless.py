"""Blocks to which no variable leads: without any name, or named after the class of what holds them.

Where a climb has found that only reference cycles keep them, they are said to be kept by these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gputui.probe.names.cycles import Cycle
from gputui.probe.objects.plain import type_name
from gputui.probe.search.modules import ModuleTrees
from gputui.probe.search.variables import NamedValue
from gputui.probe.tensors.entries import HOST, new_entry

_UNNAMED = "unnamed "


class Block(NamedTuple):
    """The device of a block, and how much was requested for it."""

    device: int
    requested_bytes: int


class Nameless:
    """Those of the last look; belongs to one process."""

    def __init__(self) -> None:
        self.blocks: dict[int, Block] = {}
        """Without any name, by address."""
        self._classes: set[str] = set()
        """The classes of modules and optimizers to which no variable leads."""

    def note_owners(self, trees: ModuleTrees, optimizers: Iterable[NamedValue]) -> None:
        """Know the modules and optimizers that were found among Python's objects alone."""
        self._classes = trees.classes_alone()
        self._classes.update(named.name for named in optimizers if named.name == type_name(named.value))

    def sizes(self, storages: Iterable[dict[str, Any]]) -> dict[int, int]:
        """What was requested for each of them, by address; `storages` are those with an owner."""
        named = {at["address"]: at["size_bytes"] for at in storages if at["device"] != HOST and self._is_alone(at)}
        return {**named, **{address: block.requested_bytes for address, block in self.blocks.items()}}

    def say_kept(self, storages: list[dict[str, Any]], cycles: Mapping[int, Cycle]) -> None:
        """Say of these storages that cycles keep them, by the address of each; adds those without any name."""
        for number, storage in enumerate(storages) if cycles else ():
            cycle = cycles.get(storage["address"])
            if cycle is not None and self._is_alone(storage):
                storages[number] = {**storage, "category": "other", "owner": cycle.name, "keeper": cycle.keeper}
        for address in cycles.keys() & self.blocks.keys():
            block, cycle = self.blocks.pop(address), cycles[address]
            fields = block.device, address, block.requested_bytes, "other", cycle.name, cycle.keeper
            storages.append(new_entry(*fields, "", [], "", [], is_pinned=False))

    def _is_alone(self, storage: dict[str, Any]) -> bool:
        owner = storage["owner"]
        if storage["keeper"] or storage["saved_by"]:
            return False
        return owner.startswith(_UNNAMED) or owner.partition(".")[0].partition("[")[0] in self._classes

"""What did not change between the last whole inventories, and whether the next inventory may be a brief one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from operator import itemgetter
from typing import Any

from gputui.probe.batches import HOST, Batch, Placed, beside_batches
from gputui.probe.brief_search import Root
from gputui.probe.rests import SearchMemory
from gputui.probe.variables import first_variable

BRIEF_IN_TURN = 3
"""So many brief inventories follow a whole one."""
SETTLED_AFTER = 2
"""So many whole inventories in turn must have found no difference that lasts before a brief one is taken."""
IN_VAIN_AGAIN_AFTER = 3
"""A search in vain is not repeated in so many brief inventories: C++ has temporary tensors, to which nothing leads."""
WAYS_AT_MOST = 1024
"""So many ways of searching are known to be in vain."""
OTHERS_AT_MOST = 1024
"""With more storages beside those of models, all inventories are whole."""
NAMES_AT_MOST = 1024
"""So many containers have a known length."""
ROOT_FROM_BYTES = 1 << 20
"""With less memory that changes, a variable's objects are not searched in brief inventories."""
PASSING = frozenset({"activation", "gradient"})
"""The categories that are read anew in each inventory."""
CHANGING = frozenset({"activation", "kv_cache", "other"})
"""The categories of what may be somewhere else in the next inventory, beside gradients."""


class Lasting:
    """Belongs to one memory; a look reads it in the thread that looks, the rest happens in the probe's thread."""

    def __init__(self) -> None:
        self.search = SearchMemory()
        """What the searches of brief inventories have learned: which objects lead to no tensor."""
        self.others = Batch([], [], {})
        """The storages that belong to no batch of a model, as two whole inventories in turn have found them."""
        self.containers: list[dict[str, Any]] = []
        """Those of the last whole inventory, or of a part of one."""
        self.roots: frozenset[Root] = frozenset()
        """The variables of functions by which objects led to memory that changes, in the last whole inventory."""
        self._beside: dict[int, dict[str, Any]] = {}
        """The storages of the last whole inventory that belong to no batch, by address."""
        self._longest: dict[str, int] = {}
        """How long containers were at most, by name."""
        self._whole = 0
        """How many whole inventories in turn have found no difference that lasts."""
        self._brief = 0
        """How many brief ones have followed the last whole one."""
        self._passed_over: dict[Hashable, int] = {}
        """How many more brief ones pass a way of searching over."""
        self._may_follow = False
        """Whether the next inventory may be a brief one, whatever changes."""

    @property
    def is_settled(self) -> bool:
        """Whether a brief inventory may follow a whole one for which there is too little time."""
        return self._whole >= SETTLED_AFTER

    @property
    def is_brief_due(self) -> bool:
        """Whether the next inventory may be a brief one."""
        return self._may_follow or (self.is_settled and self._brief < BRIEF_IN_TURN)

    def begin_brief(self) -> None:
        """A brief inventory is taken now."""
        self._may_follow = False
        self._brief += 1

    def let_brief_follow(self) -> None:
        """A whole inventory had no time for a large model: only a brief one names what changes in it."""
        self._may_follow = True

    def end_brief(self) -> None:
        """Memory is left that has no name: the next inventory must be a whole one."""
        self._brief = BRIEF_IN_TURN

    def may_try(self, way: Hashable) -> bool:
        """Whether this brief inventory should search in this way for memory that nothing nearby names."""
        left = self._passed_over.pop(way, 0)
        if left > 1:
            self._passed_over[way] = left - 1
        return not left

    def tried_in_vain(self, way: Hashable) -> None:
        """A brief inventory has searched in this way, and found hardly anything."""
        if len(self._passed_over) > WAYS_AT_MOST:
            self._passed_over.clear()
        self._passed_over[way] = IN_VAIN_AGAIN_AFTER

    def begin_again(self) -> None:
        """Something has changed that brief inventories do not see: take whole ones for a while."""
        self._whole = 0

    def note_lengths(self, containers: list[dict[str, Any]]) -> None:
        """Learn from an inventory that another of the same look follows, which may have no time for these."""
        if self._has_grown(containers):
            self.begin_again()

    def note(self, inventory: dict[str, Any]) -> None:
        """Learn from a whole inventory that is complete and names nearly all memory."""
        self._brief = 0
        storages = beside_batches(inventory["storages"], inventory["batches"])
        is_grown = self._has_grown(inventory["containers"])
        if is_grown or len(storages) > OTHERS_AT_MOST or any(map(itemgetter("keeper"), storages)):
            self.begin_again()
            return
        self._whole += 1
        self.containers = inventory["containers"]
        before, self._beside = self._beside, {storage["address"]: storage for storage in storages}
        others = {
            address: storage
            for address, storage in self._beside.items()
            if storage["category"] not in PASSING and address in before and _is_same(before[address], storage)
        }
        if others != self.others.entries:
            self.others = Batch([], [], others)
        self.roots = _roots([storage for address, storage in self._beside.items() if address not in others])

    def note_part(self, containers: list[dict[str, Any]], found: Mapping[int, dict[str, Any]]) -> None:
        """Learn from a whole inventory for which there was too little time, so that brief ones may follow it.

        In a large program, all may be like this one. `found` are its storages and those of earlier ones by address.
        """
        self.containers = containers
        if self._has_grown(containers):
            self.begin_again()
            return
        self._brief = 0
        self._whole += 1
        self._keep_others(
            {
                address: storage
                for address, storage in self.others.entries.items()
                if address in found and _is_same(storage, found[address])
            }
        )

    def checked(self, inventory: dict[str, Any], live_bytes: Mapping[int, int]) -> None:
        """Take out of a brief inventory what the map shows no more; `live_bytes` are those requested by address."""
        left = dict(inventory["by_address"])
        kept: Placed = []
        for first, batch in inventory["batches"]:
            gone = [] if batch.blocks.items() <= live_bytes.items() else _gone(batch, live_bytes)
            if not gone:
                kept.append((first - len(inventory["by_address"]) + len(left), batch))
            elif batch.ids:
                self.begin_again()
            for address in gone:
                del left[address]
        if len(left) < len(inventory["by_address"]):
            inventory.update(by_address=left, storages=list(left.values()), batches=kept)
            self._keep_others(left)

    def _keep_others(self, storages: Mapping[int, dict[str, Any]]) -> None:
        """Take no others for lasting than these."""
        others = {address: storage for address, storage in self.others.entries.items() if address in storages}
        if others != self.others.entries:
            self.others = Batch([], [], others)

    def _has_grown(self, containers: list[dict[str, Any]]) -> bool:
        """Whether a container is longer than it ever was: what leaks is seen by whole inventories only.

        Lists that a function fills again and again may be found at any length.
        """
        if len(self._longest) > NAMES_AT_MOST:
            self._longest.clear()
        is_grown = False
        for container in containers:
            name, length = container["name"], container["elements"]
            before = self._longest.get(name, length)
            is_grown |= before < length
            self._longest[name] = max(before, length)
        return is_grown


def _is_same(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether a storage is the same in two inventories; a function that leads to an object goes from line to line."""
    if before["owner"] != now["owner"]:
        path, places = _path(now["owner"]), (before["owner"], now["owner"])
        if "." not in path or _path(before["owner"]) != path or len(set(map(_function, places))) > 1:
            return False
    return all(before[field] == now[field] for field in ("size_bytes", "category", "shape", "dtype", "type"))


def _path(owner: str) -> str:
    """The name of a tensor without the place of its variable."""
    return owner.partition(" (")[0]


def _function(owner: str) -> str:
    """The function of its variable."""
    return owner.rpartition(" in ")[2].rstrip(")") if owner.endswith(")") else ""


def _roots(storages: list[dict[str, Any]]) -> frozenset[Root]:
    """The variables whose objects lead to much of what changes, or to the graphs that keep it."""
    led_to: Counter[Root] = Counter()
    for storage in storages:
        if storage["category"] in CHANGING and storage["device"] != HOST:
            owner = storage["kept_by"] if storage["saved_by"] else storage["owner"]
            led_to[Root(first_variable(_path(owner)), _function(owner))] += storage["size_bytes"]
    return frozenset(root for root, size_bytes in led_to.items() if size_bytes >= ROOT_FROM_BYTES)


def _gone(batch: Batch, live_bytes: Mapping[int, int]) -> list[int]:
    """The addresses of its storages that are none of these blocks."""
    return [address for address, size_bytes in batch.blocks.items() if live_bytes.get(address) != size_bytes]

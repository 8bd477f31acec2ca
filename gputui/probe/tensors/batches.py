"""Many tensors that were the same in the last look: recognised in C loops, and recorded in one call.

The parameters, buffers and optimizer states of a large model seldom change. As long as the objects and the addresses of
their storages are those of the last look, so are their names. Numbers are kept from look to look, and no tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, compress
from operator import is_, itemgetter
from typing import Any, Dict, List, Tuple, TypeVar

from gputui.probe.pace.meter import Meter

HOST = -1
Item = TypeVar("Item")
Entry = Dict[str, Any]
"""The fields of `gputui.model.attached.tensors.Storage`."""
_device, _size_bytes, _views = itemgetter("device"), itemgetter("size_bytes"), itemgetter("views")


def new_entry(  # noqa: PLR0913, PLR0917 (one argument for each field)
    device: int,
    address: int,
    size_bytes: int,
    category: str,
    owner: str,
    keeper: str,
    type_of_tensor: str,
    shape: list[int],
    dtype: str,
    views: list[list[int]],
    *,
    is_pinned: bool,
) -> Entry:
    """The fields of `gputui.model.attached.tensors.Storage`."""
    return {
        "device": device,
        "address": address,
        "size_bytes": size_bytes,
        "category": category,
        "owner": owner,
        "keeper": keeper,
        "type": type_of_tensor,
        "shape": shape,
        "dtype": dtype,
        "saved_by": "",
        "module": "",
        "kept_by": "",
        "is_pinned": is_pinned,
        "views": views,
    }


class Batch:
    """The tensors of one kind: their ids and addresses, the entries of their storages, and what else was learned."""

    __slots__ = (
        "_rest",
        "_shared",
        "addresses",
        "blocks",
        "device_bytes",
        "devices",
        "entries",
        "ids",
        "learned",
        "shown_in_part",
    )

    def __init__(self, ids: list[int], addresses: list[int], entries: dict[int, Entry], learned: object = None) -> None:
        self.ids = ids
        self.addresses = addresses
        self.entries = entries
        self.learned: Any = learned
        own = list(entries.values())
        self.devices = devices_of(own)
        self.device_bytes = bytes_on_devices(own)
        self.blocks = {at: entry["size_bytes"] for at, entry in entries.items() if entry["device"] != HOST}
        """What was requested for each of its storages that is on a device, by address."""
        self.shown_in_part = list(compress(own, map(_views, own)))
        """Those of its entries whose storages are shown by small views."""
        self._shared: set[int] = set()
        """The addresses that `_rest` is without."""
        self._rest: Batch | None = None

    def beside(self, others: Mapping[int, Entry]) -> Batch:
        """The part of it whose storages are not among the others: all of it but for tied weights."""
        if others.keys().isdisjoint(self.entries):
            return self
        shared = others.keys() & self.entries.keys()
        if self._rest is None or shared != self._shared:
            self._shared = shared
            self._rest = Batch([], [], {at: entry for at, entry in self.entries.items() if at not in shared})
        return self._rest


Placed = List[Tuple[int, Batch]]
"""Batches in the order of a look's storages, each with the place of its first storage in the list of these."""


class Batches:
    """The batches of the last look, by what they are of."""

    def __init__(self) -> None:
        self._batches: dict[str, tuple[object, Batch]] = {}
        self._starts: dict[str, int] = {}
        """Where a look had no more time, by what it read: the next one goes on from there."""
        self._parts: list[object] = []
        self._merged: Any = None
        """What was made of these parts, each learned with a batch."""

    def in_turn(self, kind: str, items: list[Item], meter: Meter, *, is_round: bool = True) -> Iterator[Item]:
        """Each of these once, from where the last look had no more time, until this one has none.

        Without `is_round`, those before that are left out, and the look is not complete.
        """
        start = self._starts.pop(kind, 0) % max(1, len(items))
        if start and not is_round:
            meter.leave_out()
        for number, item in enumerate(chain(items[start:], items[: start * is_round]), start):
            if meter.spend():
                yield item
            if meter.is_over:
                self._starts[kind] = number
                return

    def goes_on(self, kind: str) -> bool:
        """Whether the last look had no time for some of these."""
        return kind in self._starts

    def unchanged(self, kind: str, version: object, ids: list[int], addresses: list[int]) -> Batch | None:
        """The batch of the last look if these are its tensors; `version` is of what their names were made from."""
        known_version, batch = self._batches.get(kind, (None, None))
        is_same = batch is not None and (version, ids, addresses) == (known_version, batch.ids, batch.addresses)
        return batch if is_same else None

    def keep(
        self,
        kind: str,
        version: object,
        ids: list[int],
        addresses: list[int],
        entries: Mapping[int, Entry],
        learned: object = None,
    ) -> Batch:
        """Keep, and return, a batch of these storages; `entries` may have others, too."""
        own = {address: entries[address] for address in addresses if address in entries}
        batch = Batch(ids, addresses, own, learned)
        self._batches[kind] = version, batch
        return batch

    def merged(self, parts: list[Any], merge: Callable[[list[Any]], object]) -> Any:  # noqa: ANN401
        """What `merge` makes of these parts, kept as long as they are the same objects."""
        is_same = self._merged is not None and len(parts) == len(self._parts) and all(map(is_, parts, self._parts))
        if not is_same:
            self._parts, self._merged = list(parts), merge(parts)
        return self._merged


def beside_batches(storages: list[Entry], batches: Placed) -> list[Entry]:
    """The storages of a look that are in none of its batches."""
    ends = [0, *(first + len(batch.entries) for first, batch in batches)]
    starts = [*(first for first, _ in batches), len(storages)]
    return list(chain.from_iterable(storages[end:start] for end, start in zip(ends, starts)))


def devices_of(entries: Iterable[Entry]) -> set[int]:
    """The devices that these storages are on."""
    return set(map(_device, entries))


def bytes_on_devices(entries: list[Entry]) -> int:
    """The size of those of these storages that are on devices."""
    return sum(compress(map(_size_bytes, entries), map(HOST.__ne__, map(_device, entries))))

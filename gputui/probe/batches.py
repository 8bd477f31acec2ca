"""Many tensors that were the same in the last look: recognised in C loops, and recorded in one call.

The parameters, buffers and optimizer states of a large model seldom change. As long as the objects and the addresses of
their storages are those of the last look, so are their names. Numbers are kept from look to look, and no tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain, compress
from operator import is_, itemgetter
from typing import Any, Dict, List, Tuple

HOST = -1
Entry = Dict[str, Any]
"""The fields of `gputui.model.tensors.Storage`."""
_device, _size_bytes = itemgetter("device"), itemgetter("size_bytes")


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
        "is_settled",
        "learned",
        "text",
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
        self.text = b""
        """The entries as JSON, once a look has sent them."""
        self.is_settled = False
        """Whether two looks have found it: an optimizer may make new states in each step."""
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
        self._parts: list[object] = []
        self._merged: Any = None
        """What was made of these parts, each learned with a batch."""

    def has(self, kind: str, version: object) -> bool:
        """Whether there is a batch of these tensors, whether or not it has changed."""
        return self._batches.get(kind, (None, None))[0] == version

    def unchanged(self, kind: str, version: object, ids: list[int], addresses: list[int]) -> Batch | None:
        """The batch of the last look if these are its tensors; `version` is of what their names were made from."""
        batch = self._of(kind, version, ids)
        if batch is None or addresses != batch.addresses:
            return None
        batch.is_settled = True
        return batch

    def settled(self, kind: str, version: object, ids: list[int]) -> Batch | None:
        """The same by the tensors alone, if they have already been found with their storages where they were."""
        batch = self._of(kind, version, ids)
        return batch if batch is not None and batch.is_settled else None

    def _of(self, kind: str, version: object, ids: list[int]) -> Batch | None:
        known_version, batch = self._batches.get(kind, (None, None))
        return batch if batch is not None and known_version == version and ids == batch.ids else None

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

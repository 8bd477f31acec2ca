"""Many tensors that were the same in the last look: recognised in C loops, and recorded in one call.

The parameters, buffers and optimizer states of a large model seldom change. As long as the objects and the addresses of
their storages are those of the last look, so are their names. Numbers are kept from look to look, and no tensor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Dict, Mapping, NamedTuple

Entries = Mapping[int, Dict[str, Any]]


class Batch(NamedTuple):
    """The tensors of one kind: their ids and addresses, the entries of their storages, and what else was learned."""

    ids: list[int]
    addresses: list[int]
    entries: dict[int, dict[str, Any]]
    learned: Any


class Batches:
    """The batches of the last look, by what they are of."""

    def __init__(self) -> None:
        self._batches: dict[str, tuple[object, Batch]] = {}

    def unchanged(self, kind: str, version: object, ids: list[int], addresses: list[int]) -> Batch | None:
        """The batch of the last look if these are its tensors; `version` is of what their names were made from."""
        known_version, batch = self._batches.get(kind, (None, None))
        if batch is None or known_version != version or addresses != batch.addresses or ids != batch.ids:
            return None
        return batch

    def keep(
        self, kind: str, version: object, ids: list[int], addresses: list[int], entries: Entries, learned: object = None
    ) -> None:
        """Keep a batch that was recorded one by one; `entries` may have others, too."""
        own = {address: entries[address] for address in addresses if address in entries}
        self._batches[kind] = version, Batch(ids, addresses, own, learned)


def add_missing(entries: dict[int, dict[str, Any]], batch: Batch) -> None:
    """Add the entries of a batch, except for storages that have an owner already."""
    if entries.keys().isdisjoint(batch.entries):
        entries.update(batch.entries)
    else:
        _add_one_by_one(entries, batch.entries.items())


def _add_one_by_one(entries: dict[int, dict[str, Any]], items: Iterable[tuple[int, dict[str, Any]]]) -> None:
    for address, entry in items:
        entries.setdefault(address, entry)

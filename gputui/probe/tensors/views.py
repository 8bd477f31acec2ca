"""Finds storages of which the tensors show only a small part: a row that is kept keeps the whole matrix.

Only a storage whose first tensor shows a small part of it is watched. The field `views` of its entry lists the parts
that its tensors show, as [offset, size] in bytes; in all other entries this list is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import compress
from operator import itemgetter

from gputui.probe.objects.torch_types import AnyObject, Tensor, Torch, tensor_base
from gputui.probe.tensors.entries import Entry
from gputui.probe.tensors.wrapped_tensors import UNREADABLE

SMALL_SHARE = 4
"""A tensor that shows more than 1/4 of its storage is not a small view."""
FROM_BYTES = 1 << 16
"""Smaller storages are not watched."""
VIEWS_AT_MOST = 64
"""A storage with more small views counts as shown as a whole."""

_views = itemgetter("views")
_NONE: list[list[int]] = []
"""Shared by all entries that list no views; `add_one` replaces an entry's list and never changes it."""


class SmallViews:
    """Belongs to one ledger."""

    def __init__(self, torch: Torch, dispatches: Callable[[type], bool]) -> None:
        self._dispatches = dispatches
        base = tensor_base(torch)
        self._bytes: AnyObject = base.nbytes.__get__
        self._offset = base.storage_offset
        self._item_bytes = base.element_size
        self._watched: set[int] = set()
        """The addresses of storages whose first tensor shows a small part."""

    def of(self, tensors: list[Tensor], sizes: list[int]) -> list[list[list[int]]]:
        """The `views` of a new entry for each tensor's storage; `sizes` are the storages' bytes."""
        if max(sizes) < FROM_BYTES:
            return [_NONE] * len(sizes)
        return [
            [self._view(tensor, shown)] if shown * SMALL_SHARE <= size_bytes and size_bytes >= FROM_BYTES else _NONE
            for tensor, shown, size_bytes in zip(tensors, map(self._bytes, tensors), sizes)
        ]

    def of_one(self, tensor: Tensor, size_bytes: int) -> list[list[int]]:
        """`of` for one tensor, which may be of any class."""
        if size_bytes < FROM_BYTES or self._dispatches(type(tensor)):
            return _NONE
        try:
            return self.of([tensor], [size_bytes])[0]
        except UNREADABLE:
            return _NONE

    def watch(self, entries: list[Entry]) -> None:
        """Watch the storages whose entries list views."""
        self._watched.update(entry["address"] for entry in compress(entries, map(_views, entries)))

    def add(self, entries: dict[int, Entry], tensors: list[Tensor], addresses: list[int]) -> None:
        """Add what these tensors show to the entries of watched storages; `addresses` are those of their storages."""
        if not self._watched:
            return
        are_watched = map(self._watched.__contains__, addresses)
        for tensor, address in compress(zip(tensors, addresses), are_watched):
            if address in entries:
                self.add_one(entries[address], tensor)

    def add_one(self, entry: Entry, tensor: Tensor) -> None:
        """Add what one more tensor of a storage shows, unless the storage counts as shown as a whole."""
        views = entry["views"]
        if not views or self._dispatches(type(tensor)):
            return
        try:
            view = self._view(tensor, self._bytes(tensor))
        except UNREADABLE:
            return
        if view not in views:
            entry["views"] = merged([*views, view], entry["size_bytes"])

    def alone(self, tensor: Tensor, entry: Entry | None) -> Entry | None:
        """The entry of a tensor's storage with the view of this tensor alone: the other tensors may be gone later."""
        if entry is None or entry["address"] not in self._watched:
            return entry
        return {**entry, "views": self.of_one(tensor, entry["size_bytes"])}

    def _view(self, tensor: Tensor, shown_bytes: int) -> list[int]:
        return [self._offset(tensor) * self._item_bytes(tensor), shown_bytes]


def merged(views: list[list[int]], size_bytes: int) -> list[list[int]]:
    """These views of one storage; [] if together they show more than a small part, or if they are too many."""
    shown_bytes = sum(shown for _, shown in views)
    return views if shown_bytes * SMALL_SHARE <= size_bytes and len(views) <= VIEWS_AT_MOST else []


def by_address(entries: Iterable[Entry]) -> dict[int, Entry]:
    """One entry for each address, with what all tensors of that storage show together."""
    found: dict[int, Entry] = {}
    for entry in entries:
        before = found.setdefault(entry["address"], entry)
        if before["views"] != entry["views"]:
            found[entry["address"]] = {**entry, "views": together(before, entry)}
    return found


def together(one: Entry, other: Entry) -> list[list[int]]:
    """What the tensors of two entries show of the storage that they share."""
    if not one["views"] or not other["views"]:
        return []
    more = [view for view in other["views"] if view not in one["views"]]
    return merged([*one["views"], *more], one["size_bytes"])

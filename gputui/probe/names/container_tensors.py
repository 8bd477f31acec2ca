"""The tensors in a remembered container: known from look to look, and read on from where the last look stopped.

A look reads the elements that are new, then goes on with its pass through the others. What one pass has found is known
until the next one is done, for as long as the tensors live: they are held by weak references.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from itertools import compress, repeat
from operator import is_not
from typing import Any

from gputui.probe.objects.torch_types import AnyObject, Tensor
from gputui.probe.pace.meter import Meter
from gputui.probe.search.records import RECORDS_PER_STEP, SAMPLE, RecordReader
from gputui.probe.tensors.entries import Entry
from gputui.probe.tensors.views import by_address

AT_ONCE = 256
"""So many elements are read between two questions whether there is time left."""


class _Pass:
    """What one pass has found: weak references to tensors, and the entries of their storages."""

    def __init__(self) -> None:
        self.references: list[weakref.ref[Any]] = []
        self.entries: list[Entry] = []

    def alive(self) -> Iterator[Entry]:
        """The entries of those tensors that are alive."""
        return compress(self.entries, map(is_not, map(weakref.ref.__call__, self.references), repeat(None)))


class ContainerTensors:
    """Belongs to one remembered container."""

    def __init__(self) -> None:
        self._last, self._now = _Pass(), _Pass()
        self._next = 0
        """The element with which the pass goes on."""
        self.is_read = False
        """Whether a pass has come to all elements."""
        self._length = 0
        """How many elements the container had when its new ones were read."""

    def known(self) -> dict[int, Entry]:
        """The entries of the tensors that earlier looks have found, by address."""
        return by_address(entry for found in (self._last, self._now) for entry in found.alive())

    def read(
        self, container: AnyObject, kind: int, name: str, records: RecordReader, meter: Meter
    ) -> Iterator[tuple[list[str], list[Tensor]]]:
        """The tensors in the elements that were added, and in the next ones of the pass, some at a time by name.

        The caller gives them their entries, by `note`, before it asks for more.
        """
        length = records.length(container, kind)
        if length < self._length:
            self._next, self._length, self._now = 0, 0, _Pass()
        per_element = 1
        for is_new, first, last in self._spans(length):
            if not meter.spend(1 + (last - first) * per_element // RECORDS_PER_STEP):
                return
            part = records.part(container, kind, name, first, last)
            yield part.names, part.tensors
            per_element = 1 + len(part.tensors) // (last - first)
            if is_new:
                self._length = last
            else:
                self._next = last
        self._length = length
        self._last, self._now, self._next = self._now, _Pass(), 0
        self.is_read = True

    def note(self, tensors: list[Tensor], entries: list[Entry | None]) -> None:
        """Know these tensors in later looks; one without memory of its own has no entry."""
        rows = [(tensor, entry) for tensor, entry in zip(tensors, entries) if entry is not None]
        self._now.references += [weakref.ref(tensor) for tensor, _ in rows]
        self._now.entries += [entry for _, entry in rows]

    def _spans(self, length: int) -> Iterator[tuple[bool, int, int]]:
        """The elements to read, some at a time: those that are new, then those of the pass; and which these are."""
        if self._next < self._length < length:
            for first in range(self._length, length, AT_ONCE):
                yield True, first, min(first + AT_ONCE, length)
        size = SAMPLE
        while self._next < length:
            yield False, self._next, min(self._next + size, length)
            size = AT_ONCE

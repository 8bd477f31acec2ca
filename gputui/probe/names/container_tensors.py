"""The tensors in a remembered container: known from look to look, and read on from where the last look stopped.

A look reads the elements that are new, then goes on with its pass through the others. What one pass has found is known
until the next one is done, for as long as the tensors live: they are held by weak references.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from itertools import compress, repeat
from operator import is_not
from typing import Any, List, Tuple

from gputui.probe.objects.handles import Handle
from gputui.probe.objects.torch_types import AnyObject, Tensor
from gputui.probe.pace.meter import Meter
from gputui.probe.search.records import RECORDS_PER_STEP, SAMPLE, RecordReader
from gputui.probe.tensors.entries import Entry

Named = Tuple[List[str], List[Tensor]]
"""Tensors, and a name for each."""
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
        self.length = 0
        """How many elements the container had when its new ones were read."""
        self.passes = 0
        """How many passes have come to all elements."""
        self.parts: dict[tuple[Handle, str], ContainerTensors] = {}
        """Those of the long containers in a short one, by their names."""

    def with_parts(self, keys: Iterable[tuple[Handle, str]]) -> list[ContainerTensors]:
        """Know these parts from now on; an empty list of them where the container is read as a whole."""
        known = self.parts
        self.parts = {key: known.get(key) or ContainerTensors() for key in keys}
        return list(self.parts.values())

    @property
    def is_read(self) -> bool:
        """Whether a pass has come to all elements."""
        return self.passes > 0 if not self.parts else all(part.is_read for part in self.parts.values())

    def known(self) -> list[Entry]:
        """The entries of the tensors that were found and are alive; a storage may have several."""
        return [*self._last.alive(), *self._now.alive()]

    def read_new(
        self, container: AnyObject, kind: int, name: str, records: RecordReader, meter: Meter
    ) -> Iterator[Named]:
        """The tensors in the elements that were added, some at a time by name.

        The caller gives them their entries, by `note`, before it asks for more.
        """
        length = records.length(container, kind)
        if length < self.length:
            self._next, self.length, self._now = 0, 0, _Pass()
        if not self._next < self.length:
            return
        for first in range(self.length, length, AT_ONCE):
            last = min(first + AT_ONCE, length)
            if not meter.spend(1 + (last - first) // RECORDS_PER_STEP):
                return
            part = records.part(container, kind, name, first, last)
            yield part.names, part.tensors
            self.length = last

    def read_on(
        self, container: AnyObject, kind: int, name: str, records: RecordReader, meter: Meter
    ) -> Iterator[Named]:
        """The same of the next elements of the pass."""
        length = records.length(container, kind)
        per_element, size = 1, SAMPLE
        while self._next < length:
            first, last = self._next, min(self._next + size, length)
            if not meter.spend(1 + (last - first) * per_element // RECORDS_PER_STEP):
                return
            part = records.part(container, kind, name, first, last)
            yield part.names, part.tensors
            per_element = 1 + len(part.tensors) // (last - first)
            self._next, size = last, AT_ONCE
        self.length = length
        self._last, self._now, self._next = self._now, _Pass(), 0
        self.passes += 1

    def note(self, tensors: list[Tensor], entries: list[Entry | None]) -> None:
        """Know these tensors in later looks; one without memory of its own has no entry."""
        rows = [(tensor, entry) for tensor, entry in zip(tensors, entries) if entry is not None]
        self._now.references += [weakref.ref(tensor) for tensor, _ in rows]
        self._now.entries += [entry for _, entry in rows]

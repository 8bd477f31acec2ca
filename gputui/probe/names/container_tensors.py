"""The tensors in a remembered container, or in a tree or chain of objects: known from look to look.

A look reads the new elements, then goes on with a pass through all where the last look stopped. What a pass has found
stays known until the next pass is done, as long as the tensors live: only weak references hold them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import compress
from typing import List, Tuple

from gputui.probe.names.links import Place
from gputui.probe.objects.handles import Handle
from gputui.probe.objects.torch_types import AnyObject, Tensor
from gputui.probe.pace.meter import Meter
from gputui.probe.search.records import RECORDS_PER_STEP, SAMPLE, Found, RecordReader
from gputui.probe.tensors.entries import Entry
from gputui.probe.tensors.weak_storages import WeakStorages

Named = Tuple[List[str], List[Tensor]]
"""Tensors, and a name for each."""
TENSORS_AT_ONCE = 256
"""About how many tensors are read between two questions whether there is time left."""
LINKED_AT_MOST = 100_000
"""A pass through a tree or chain is over after so many tensors, even if it never comes to its end."""
BEHIND_AT_MOST = 8
"""After so many looks in turn without time for all new elements, a container counts as read in spite of these."""


class Pass:
    """What one pass has found: weak references to tensors, and the entries of their storages."""

    def __init__(self) -> None:
        self.storages = WeakStorages()
        self.entries: list[Entry] = []

    def __iadd__(self, other: Pass) -> Pass:
        self.storages.take(other.storages)
        self.entries += other.entries
        return self

    def note(self, tensors: list[Tensor], entries: list[Entry | None]) -> None:
        """Add these tensors; a tensor without memory of its own has no entry, and is left out."""
        rows = [(tensor, entry) for tensor, entry in zip(tensors, entries) if entry is not None]
        self.storages.add([tensor for tensor, _ in rows])
        self.entries += [entry for _, entry in rows]

    def alive(self) -> Iterator[Entry]:
        """The entries of those tensors that are alive."""
        return compress(self.entries, self.storages.are_alive())


class ContainerTensors:
    """Belongs to one remembered container."""

    def __init__(self) -> None:
        self._last, self._now = Pass(), Pass()
        self._in_part = Pass()
        """What was found in elements whose tensors could not all be recorded, as time was short."""
        self._next = 0
        """The number of the element with which the pass goes on."""
        self._per_element = 1
        """How many tensors an element has, about."""
        self.length = 0
        """How many elements the container had when its new ones were read."""
        self.passes = 0
        """How many passes have come to the end."""
        self.is_deep = False
        """Whether its elements lead farther than records are read: then the container is searched like any other."""
        self._behind = 0
        """How many looks in turn had no time for all new elements."""
        self._are_recorded = False
        """Whether there was time to record all tensors that were read last."""
        self.parts: dict[tuple[Handle, str], ContainerTensors] = {}
        """Of a short container: what is known of the long ones in it, by their handles and names."""

    def with_parts(self, keys: Iterable[tuple[Handle, str]]) -> list[ContainerTensors]:
        """Have exactly these parts from now on, and return them; none if the container is read as a whole."""
        known = self.parts
        self.parts = {key: known.get(key) or ContainerTensors() for key in keys}
        return list(self.parts.values())

    @property
    def is_read(self) -> bool:
        """Whether a pass has come to the end, and no look was too short for the new elements lately."""
        if self.parts:
            return all(part.is_read for part in self.parts.values())
        return self.passes > 0 and not 0 < self._behind <= BEHIND_AT_MOST

    def known(self) -> list[Entry]:
        """The entries of the tensors that were found and are alive; a storage may have several."""
        return [*self._last.alive(), *self._now.alive(), *self._in_part.alive()]

    def read_new(
        self, container: AnyObject, kind: int, name: str, records: RecordReader, meter: Meter
    ) -> Iterator[Named]:
        """The tensors in the elements that were added, with names, some at a time.

        The caller must `note` them with their entries before it asks for more. If it had no time for all, the next look
        reads these elements again.
        """
        length = records.length(container, kind)
        if length < self.length:
            self._next, self.length = 0, 0
            self._now, self._in_part = Pass(), Pass()
        if not self._next < self.length:
            return
        self._behind += 1
        while self.length < length:
            last = min(self.length + self._at_once, length)
            if not meter.spend(1 + (last - self.length) * self._per_element // RECORDS_PER_STEP):
                return
            yield self._part(records.part(container, kind, name, self.length, last), last - self.length)
            if not self._are_recorded:
                return
            self.length = last
            self._keep_part()
        self._behind = 0

    def read_on(
        self, container: AnyObject, kind: int, name: str, records: RecordReader, meter: Meter
    ) -> Iterator[Named]:
        """The same for the next elements of the pass."""
        length = records.length(container, kind)
        while self._next < length:
            last = min(self._next + self._at_once, length)
            if not meter.spend(1 + (last - self._next) * self._per_element // RECORDS_PER_STEP):
                return
            yield self._part(records.part(container, kind, name, self._next, last), last - self._next)
            if not self._are_recorded:
                return
            self._next = last
            self._keep_part()
        self.length = length
        self._last, self._now, self._next = self._now, Pass(), 0
        self.passes += 1

    @property
    def _at_once(self) -> int:
        """How many elements are read between two questions whether there is time left."""
        return max(1, (TENSORS_AT_ONCE if self.passes or self._next else SAMPLE) // self._per_element)

    def _keep_part(self) -> None:
        """The elements read last were recorded to the end: what was found in them belongs to the pass."""
        self._now += self._in_part
        self._in_part = Pass()

    def _part(self, found: Found, elements: int) -> Named:
        self._per_element = 1 + len(found.tensors) // elements
        self._in_part = Pass()
        return found.names, found.tensors

    def note(self, tensors: list[Tensor], entries: list[Entry | None], *, are_all: bool) -> None:
        """Know these tensors in later looks. `are_all`: whether there was time to record all of them."""
        self._in_part.note(tensors, entries)
        self._are_recorded = are_all


class LinkedTensors:
    """Belongs to one tree or chain of objects; what a pass has found is known until the next one is done."""

    def __init__(self) -> None:
        self.place = Place()
        self._last, self._now = Pass(), Pass()

    @property
    def is_read(self) -> bool:
        """Whether the pass has come to all objects."""
        return not self.place.left

    def known(self) -> list[Entry]:
        """The entries of the tensors that were found and are alive; a storage may have several."""
        return [*self._last.alive(), *self._now.alive()]

    def note(self, tensors: list[Tensor], entries: list[Entry | None]) -> None:
        """Know these tensors in later looks."""
        self._now.note(tensors, entries)

    def end_look(self) -> None:
        """If the pass has come to its end, or has found too much, forget what only the pass before has found."""
        if self.is_read or len(self._now.storages) > LINKED_AT_MOST:
            self._last, self._now = self._now, Pass()

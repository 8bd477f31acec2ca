"""Reads the remembered containers in one inventory: first their new elements, then on from where the last look stopped.

A dictionary of lists grows in its lists: each long container in a short one is read by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gputui.probe.inventory.other_tensors import OtherTensors
from gputui.probe.names.container_tensors import ContainerTensors, LinkedTensors, Named
from gputui.probe.names.links import Links, Place
from gputui.probe.names.remembered import RememberedContainer
from gputui.probe.objects import opaque
from gputui.probe.objects.attributes import AttributeReader
from gputui.probe.objects.handles import handle_of
from gputui.probe.objects.kinds import MAPPING, OBJECT, SEQUENCE, TypeClassifier
from gputui.probe.objects.torch_types import AnyObject
from gputui.probe.pace.meter import Meter
from gputui.probe.search.records import LEVELS, RECORDS_PER_STEP, SAMPLE, Found, RecordReader
from gputui.probe.search.rests import Linked
from gputui.probe.search.search import VariableSearch
from gputui.probe.search.variables import NamedValue
from gputui.probe.tensors.entries import Entry
from gputui.probe.tensors.storages import Ledger
from gputui.protocol.categories import OWNED
from gputui.protocol.owners import BELOW, Owner, owner_of

CONTAINERS = frozenset({SEQUENCE, MAPPING})
LOOKED_THROUGH_AT_MOST = 256
"""How many objects are looked through for long containers in a short one."""


class RememberedReading:
    """Belongs to one inventory."""

    def __init__(self, search: VariableSearch, classifier: TypeClassifier, attributes: AttributeReader) -> None:
        self._search = search
        self._classifier = classifier
        self._attributes = attributes
        self._records = RecordReader(classifier, attributes)
        self._keepers: list[RememberedContainer] = []
        self._linked: list[LinkedTensors] = []
        self._searched: set[int] = set()
        """The ids of the remembered containers that are searched like any other."""

    @property
    def known(self) -> list[ContainerTensors | LinkedTensors]:
        """What looks have found in these containers, and in the trees and chains that this look has come to."""
        return [*(keeper.tensors for keeper in self._keepers), *self._linked]

    @property
    def idents(self) -> set[int]:
        """The ids of the remembered containers: this look may have read nothing in them."""
        return self._searched.union(id(keeper.named.value) for keeper in self._keepers)

    def begin(self, keeper: RememberedContainer, meter: Meter) -> None:
        """Leave a container to `record` if its elements are tensors or records of them; otherwise search it now."""
        named, (value, kind) = keeper.named, self._content(keeper.named.value)
        if kind in CONTAINERS and not keeper.tensors.is_deep and self._begin_parts(keeper, value, kind, meter):
            return
        if kind not in CONTAINERS or keeper.tensors.is_deep or not self._is_shallow(keeper, value, kind):
            self._search.explore([named], meter, may_rest=False)
            self._search.remembered.add(id(named.value))
            self._searched.add(id(named.value))
            keeper.tensors.passes += 1
            return
        self._search.pass_over(named, self._records.length(value, kind), keeper.holder)
        self._keepers.append(keeper)

    def _is_shallow(self, keeper: RememberedContainer, value: AnyObject, kind: int) -> bool:
        """Whether the elements at both ends lead to tensors, and no farther than records are read."""
        found = self._records.at_the_ends(value, kind, keeper.named.name)
        keeper.tensors.is_deep = not found.is_whole
        return bool(found.tensors) and found.is_whole

    def _begin_parts(self, keeper: RememberedContainer, value: AnyObject, kind: int, meter: Meter) -> bool:
        """Leave the long containers in a short one to `record`, and search the rest; False if it has no long ones."""
        long, others = self._split(keeper, value, kind)
        tensors = keeper.tensors.with_parts((handle_of(part.value), part.name) for part, _ in long)
        if not long:
            return False
        self._search.pass_over(keeper.named, self._records.length(value, kind), keeper.holder)
        for (part, holder), known in zip(long, tensors):
            inside, kind_of_part = self._content(part.value)
            self._search.pass_over(part, self._records.length(inside, kind_of_part), holder)
            self._keepers.append(RememberedContainer(part, holder, known))
        self._search.explore(others, meter, may_rest=False)
        return True

    def _split(
        self, keeper: RememberedContainer, value: AnyObject, kind: int
    ) -> tuple[list[tuple[NamedValue, AnyObject]], list[NamedValue]]:
        """The long containers of tensors in a short one, each with its holder, and the rest; nothing if too many."""
        long: list[tuple[NamedValue, AnyObject]] = []
        others: list[NamedValue] = []
        level, looked_through = [(keeper.named, value, kind)], 0
        seen = {id(value)}
        for _ in range(LEVELS):
            deeper = []
            for holder, inside, kind_of_holder in level:
                held = self._held(holder, inside, kind_of_holder)
                looked_through += len(held)
                if looked_through > LOOKED_THROUGH_AT_MOST:
                    return [], []
                for part in held:
                    content, kind_of_part = self._content(part.value)
                    is_long = kind_of_part in CONTAINERS and self._records.length(content, kind_of_part) > SAMPLE
                    if id(part.value) in seen:  # by another name
                        continue
                    seen.add(id(part.value))
                    if is_long and self._has_tensors(keeper, part, content, kind_of_part):
                        long.append((part, inside))
                    elif not is_long and (kind_of_part in CONTAINERS or kind_of_part == OBJECT):
                        deeper.append((part, content, kind_of_part))
                    else:
                        others.append(part)
            level = deeper
        return long, [*others, *(part for part, _, _ in level)]

    def _has_tensors(self, keeper: RememberedContainer, part: NamedValue, content: AnyObject, kind: int) -> bool:
        """Whether a long container has tensors at its ends, now or in an earlier look: other data is not read on."""
        is_known = (handle_of(part.value), part.name) in keeper.tensors.parts
        return is_known or bool(self._records.at_the_ends(content, kind, part.name).tensors)

    def _held(self, named: NamedValue, value: AnyObject, kind: int) -> list[NamedValue]:
        """The values in a short container or an object, of a longer one only as many as show that it is too long."""
        if kind == OBJECT:
            held = [(f"{named.name}.{name}", part) for name, part in self._attributes.read(value).items()]
        else:
            held = self._records.held(value, kind, named.name, LOOKED_THROUGH_AT_MOST + 1)
        return [NamedValue(part, name, named.where, named.keeper) for name, part in held]

    def _content(self, value: AnyObject) -> tuple[AnyObject, int]:
        """What to read of a container, and its kind: for a function with a cache, the dictionary of its results."""
        cache = opaque.cache_of(value) if type(value) is opaque.LRU_CACHE else {}
        return (cache, MAPPING) if cache and not opaque.has_links(cache) else (value, self._classifier.kind_of(value))

    def record(self, ledger: Ledger, others: OtherTensors, meter: Meter) -> None:
        """Record the new elements of each container, then read on in each."""
        for keeper in sorted(self._keepers, key=self._new_elements, reverse=True):  # most first, as time may be short
            self._record(keeper, keeper.tensors.read_new, ledger, others, meter)
        self._read_on(self._keepers, ledger, others, meter)

    def record_unread(self, ledger: Ledger, others: OtherTensors, meter: Meter) -> None:
        """Read on in the containers that no look has read to the end."""
        self._read_on([keeper for keeper in self._keepers if not keeper.tensors.is_read], ledger, others, meter)

    def _read_on(self, keepers: list[RememberedContainer], ledger: Ledger, others: OtherTensors, meter: Meter) -> None:
        """Those that were read least often come first, and of these the shortest: a long one may take several looks."""
        for keeper in sorted(keepers, key=lambda keeper: (keeper.tensors.passes, self._length(keeper))):
            self._record(keeper, keeper.tensors.read_on, ledger, others, meter)

    def _length(self, keeper: RememberedContainer) -> int:
        return self._records.length(*self._content(keeper.named.value))

    def _new_elements(self, keeper: RememberedContainer) -> int:
        return self._length(keeper) - keeper.tensors.length

    def _record(
        self,
        keeper: RememberedContainer,
        read: Callable[[AnyObject, int, str, RecordReader, Meter], Iterator[Named]],
        ledger: Ledger,
        others: OtherTensors,
        meter: Meter,
    ) -> None:
        named, (value, kind) = keeper.named, self._content(keeper.named.value)
        for names, tensors in read(value, kind, named.name, self._records, meter):
            entries = self._entries(named, Found(names, tensors, is_whole=True), ledger, others)
            keeper.tensors.note(tensors, entries, are_all=not others.is_cut)

    def record_linked(
        self, linked: list[tuple[Linked, LinkedTensors]], ledger: Ledger, others: OtherTensors, meter: Meter
    ) -> None:
        """Record the tensors of these trees and chains, as far as there is time."""
        for one, known in linked:
            for objects, found in self._below(one, known.place, meter):
                entries = self._entries(one.first, found, ledger, others)
                if others.is_cut:
                    known.place.put_back(objects)
                else:
                    known.note(found.tensors, entries)
            known.end_look()
            self._linked.append(known)

    def _below(self, linked: Linked, place: Place, meter: Meter) -> Iterator[tuple[list[Any], Found]]:
        """The objects of a tree or chain, some at a time, with their tensors: see `Links.below`."""
        cls = type(linked.first.value)
        records = RecordReader(self._classifier, self._attributes, passed_over=cls)
        for some in Links(cls, self._classifier, self._search.seen).below(linked.starts, place, meter):
            if not meter.spend(len(some) // RECORDS_PER_STEP):
                place.put_back(some)
                return
            yield some, records.of_objects(some, f"{linked.first.name}{BELOW}")

    def _entries(self, named: NamedValue, found: Found, ledger: Ledger, others: OtherTensors) -> list[Entry | None]:
        """Record tensors that were found in this value; returns the entry by which later looks know each."""
        taken = self._search.take(named, found)
        left = ledger.record_again([new.value for new in taken], "", [new.owner for new in taken])
        others.record_variables("remembered", [taken[number] for number in left])
        entries = map(ledger.views.alone, found.tensors, map(ledger.entry_of, found.tensors))
        owners = [owner_of(name, named.where) for name in found.names]
        return list(map(_named, entries, owners))


def _named(entry: Entry | None, owner: Owner) -> Entry | None:
    """An entry as it is known in later looks, when no variable holds this element of the container any more."""
    if entry is None or entry["category"] in OWNED or entry["owner"] == owner:
        return entry
    return {**entry, "owner": owner, "keeper": ""}

"""Modules, optimizers and tensors, searched from the program's variables level by level: the shortest name wins.

A search is bounded by a meter. What it learns makes the next one cheaper: which objects lead to nothing, and how far it
got in a large container. That is kept as numbers; modules and optimizers are kept by weak references.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from itertools import compress, islice, repeat
from types import FunctionType
from typing import Any

from gputui.probe.attributes import AttributeReader
from gputui.probe.containers import DESCRIBED_AT_MOST, SHORTEST, Container
from gputui.probe.kinds import EXCEPTION, MODULE, OPTIMIZER, TENSOR, TypeClassifier
from gputui.probe.meter import Meter
from gputui.probe.modules import KnownModule
from gputui.probe.plain import type_name
from gputui.probe.records import RECORDS_AT_MOST, RecordReader
from gputui.probe.stacks import Namespace
from gputui.probe.torch_types import AnyObject, Module
from gputui.probe.variables import ContentReader, Contents, NamedValue, join, size_of

LEVELS = 5
"""How deep a variable is searched: `trainer.optimizers[0]` is at the third level."""
LEVELS_OF_HOOKS = 6
"""The same for a saved-tensor hook: a checkpoint's leads by its closure to a frame object, dictionaries and tensors."""
SHORTEST_REST = 8
"""For how many looks, at least, an object that led to nothing is not searched again."""
SEARCHED_AGAIN = 250
"""How many of those objects are searched again in each look, about: half a millisecond of work."""
REMEMBERED_AT_MOST = 20_000
FORGETS_EVERY = 64
"""How often the objects that need not be skipped any more are forgotten, in looks: most of them are gone by then."""

ELEMENTS_PER_STEP = 64
"""So many elements of a container that are passed over cost as much as one object that is read."""


class SearchMemory:
    """What searches have learned, for the next one; nothing of the program's is kept alive.

    With `reads_records`, a search reads thousands of elements of a container where it would read a hundred.
    """

    def __init__(self, *, reads_records: bool = False) -> None:
        self.reads_records = reads_records
        self.number = 0
        """How many searches there were."""
        self.starts: dict[int, int] = {}
        """The element from which to go on in a large container, by its id."""
        self._rests: dict[int, int] = {}
        """Until which search to skip an object that led to nothing, by `_key` of the object."""
        self._optimizers: dict[int, tuple[weakref.ref[Any], str]] = {}

    def begin(self) -> None:
        self.number += 1
        if self.number % FORGETS_EVERY == 0:
            self._rests = {key: until for key, until in self._rests.items() if until > self.number}
        for numbers in (self._rests, self.starts):
            if len(numbers) > REMEMBERED_AT_MOST:
                numbers.clear()

    def led_to_nothing(self, value: AnyObject, size: int) -> bool:
        """Whether an earlier search found nothing in this object, and it need not be searched again yet."""
        return self._rests.get(_key(value, size), 0) > self.number

    def let_rest(self, value: AnyObject, size: int) -> None:
        """Note that an object of this many elements led to nothing."""
        self._rests[_key(value, size)] = self.rests_until(value)

    def rests_until(self, value: AnyObject) -> int:
        """Until which search an object need not be searched again that leads to nothing now."""
        looks = max(SHORTEST_REST, len(self._rests) // SEARCHED_AGAIN)
        return self.number + looks + (id(value) >> 4) % looks  # so that not all end in the same look

    def remember_optimizers(self, optimizers: Iterable[NamedValue]) -> list[NamedValue]:
        """Know these optimizers in later looks too, even if no variable on a stack leads to them then.

        Returns them with the names that they had in earlier looks: which variable leads to one depends on the moment.
        """
        return [named._replace(name=self._lasting_name(named)) for named in optimizers]

    def _lasting_name(self, named: NamedValue) -> str:
        """The first name but `self`, which is the optimizer's own method; for that, the name of its class."""
        reference, name = self._optimizers.get(id(named.value), (None, ""))
        cls = type_name(named.value)
        if reference is None or reference() is not named.value or name == cls:
            name = cls if named.name == "self" else named.name
            self._optimizers[id(named.value)] = weakref.ref(named.value), name
        return name

    def optimizers(self) -> list[NamedValue]:
        """The optimizers of earlier looks that are still alive."""
        alive = [(ident, reference(), name) for ident, (reference, name) in self._optimizers.items()]
        for ident, value, _ in alive:
            if value is None:
                del self._optimizers[ident]
        return [NamedValue(value, name, "") for _, value, name in alive if value is not None]


def _key(value: AnyObject, size: int) -> int:
    """Also of its type and size, as the ids of objects that are gone recur."""
    return hash((id(value), id(type(value)), size))


class VariableSearch:
    """Modules, optimizers and tensors in the order they are found, each object once."""

    def __init__(
        self, classifier: TypeClassifier, attributes: AttributeReader, memory: SearchMemory, *, is_thorough: bool
    ) -> None:
        self.modules: list[NamedValue] = []
        self.optimizers: list[NamedValue] = []
        self.tensors: list[NamedValue] = []
        self.exceptions: list[NamedValue] = []
        self.containers: list[Container] = []
        """Those of variables in which something was found, the nearest to a variable first."""
        self._classifier = classifier
        self._reader = ContentReader(classifier, attributes)
        self._records = RecordReader(classifier, attributes)
        self._memory = memory
        self._is_thorough = is_thorough
        """Whether objects that led to nothing before are searched as well."""
        self._seen: dict[int, Any] = {}
        memory.begin()

    def search(self, namespaces: list[Namespace], meter: Meter) -> None:
        """Search these variables."""
        level = []
        for where, _, variables, _ in namespaces:
            level += [
                NamedValue(value, name, where)
                for name, value in self._classifier.of_interest(list(variables.items()))
                if type(value) is not FunctionType or value.__closure__
            ]
        self.explore(level, meter)

    def explore(
        self, roots: list[NamedValue], meter: Meter, levels: int = LEVELS, holder: AnyObject | None = None
    ) -> None:
        """Search these values and what they hold, level by level; `holder` has them as attributes."""
        trail = _Trail(holder)
        kinds = self._classifier.kinds_of(named.value for named in roots)
        level = [(named, -1) for named in compress(roots, kinds)]
        for depth in range(levels + 1):
            level = self._explore_level(level, trail, meter, is_last=depth == levels)
        trail.let_rest(self._memory)
        if any(map(trail.leads, trail.read_in_part)):
            meter.leave_out()
        left = DESCRIBED_AT_MOST - len(self.containers)
        self.containers += islice((container for container, place in trail.containers if trail.leads(place)), left)

    def leave_out(self, values: Iterable[AnyObject]) -> None:
        """Do not search what these values hold."""
        self._seen.update((id(value), value) for value in values)

    def attributes_of(self, known: KnownModule, module: Module, where: str, keeper: str, meter: Meter) -> None:
        """Search the attributes of a module that are neither parameters nor buffers nor other modules.

        They are skipped for some looks where they led to nothing.
        """
        if (known.rests_until > self._memory.number and not self._is_thorough) or not meter.spend():
            return
        found = len(self.tensors) + len(self.optimizers) + len(self.modules)
        named = NamedValue(module, known.name, where, keeper)
        self.explore(self._reader.module_attributes(named), meter, levels=1, holder=module)
        if found == len(self.tensors) + len(self.optimizers) + len(self.modules) and not meter.is_over:
            known.rests_until = self._memory.rests_until(module)

    def held_by(self, values: list[Any], meter: Meter) -> list[NamedValue]:
        """The tensors that these values lead to and that were not found before; they are not added to `tensors`."""
        known = len(self.tensors)
        self.explore([NamedValue(value, "", "") for value in values], meter, LEVELS_OF_HOOKS)
        held = self.tensors[known:]
        del self.tensors[known:]
        return held

    def _explore_level(
        self, level: list[tuple[NamedValue, int]], trail: _Trail, meter: Meter, *, is_last: bool
    ) -> list[tuple[NamedValue, int]]:
        """Take these values, each with the place of its holder on the trail; returns what they hold."""
        seen, kind_of = self._seen, self._classifier.kind_of
        deeper: list[tuple[NamedValue, int]] = []
        for named, holder in level:
            value = named.value
            if id(value) in seen:
                continue
            kind = kind_of(value)
            is_find = kind <= OPTIMIZER
            size = 0 if is_find else size_of(value, kind)
            if not is_find and (is_last or (not self._is_thorough and self._memory.led_to_nothing(value, size))):
                continue
            if not meter.spend():
                trail.cut(holder)
                continue
            seen[id(value)] = value  # kept until the search is over, so that no other object gets its id
            if is_find:
                self._take(named, kind)
                trail.find(holder)
            if kind >= OPTIMIZER:
                place = trail.add(value, holder, size)
                inside = self._inside(named, kind, size, meter, trail)
                deeper += [(element, place) for element in inside]
                if size >= SHORTEST and inside and not named.keeper:
                    trail.containers.append((Container(named, size, trail.value_at(holder)), place))
        return deeper

    def _take(self, named: NamedValue, kind: int) -> None:
        finds = {TENSOR: self.tensors, MODULE: self.modules, EXCEPTION: self.exceptions, OPTIMIZER: self.optimizers}
        finds[kind].append(named)

    def _contents(self, value: AnyObject, kind: int) -> Contents | None:
        """What a value holds; None if another thread keeps changing it while it is read."""
        start = self._memory.starts.get(id(value), 0)
        try:
            return self._reader.read(value, kind, start)
        except RuntimeError:  # "deque mutated during iteration", and the like for sets and dictionaries
            with suppress(RuntimeError):
                return self._reader.read(value, kind, start)
        return None

    def _inside(self, named: NamedValue, kind: int, size: int, meter: Meter, trail: _Trail) -> list[NamedValue]:
        """The values of interest in the one that was added to the trail last, which has `size` elements."""
        contents = self._contents(named.value, kind)
        if contents is None:
            meter.leave_out()
            trail.cut(trail.last)
            return []
        meter.spend(contents.read // ELEMENTS_PER_STEP)
        _, name, where, keeper = named
        inside = [NamedValue(element, join(name, key), where, keeper) for key, element in contents.items]
        if not contents.is_whole:
            self._memory.starts[id(named.value)] = contents.next_start
            if not self._read_records(named, kind, size, meter, trail):
                trail.read_in_part.append(trail.last)
        return inside

    def _read_records(self, named: NamedValue, kind: int, size: int, meter: Meter, trail: _Trail) -> bool:
        """Take the tensors in the elements of a large container; returns whether all of them were read."""
        count, value = min(size, RECORDS_AT_MOST), named.value
        if not self._memory.reads_records:
            return False
        start = 0 if size == count else self._memory.starts[id(value)]
        found = self._records.elements(value, kind, named.name, start, meter)
        if size > count:
            self._memory.starts[id(value)] = start + count
        is_new = [ident not in self._seen for ident in map(id, found.tensors)]
        self._seen.update(zip(map(id, found.tensors), found.tensors))
        values = zip(found.tensors, found.names, repeat(named.where), repeat(named.keeper))
        self.tensors += map(partial(tuple.__new__, NamedValue), compress(values, is_new))
        if found.tensors:
            trail.find(trail.last)
        return found.is_whole and size == count


class _Trail:
    """The objects that one exploration went through, by which it learns which of them lead to nothing."""

    def __init__(self, holder: AnyObject | None) -> None:
        self._holder_of_roots = holder
        self._values: list[tuple[Any, int]] = []
        self._holders: list[int] = []
        self._leads_somewhere: list[bool] = []
        self.containers: list[tuple[Container, int]] = []
        """The containers on it, each with its place."""
        self.read_in_part: list[int] = []
        """The places of containers of which a part was read."""

    def add(self, value: AnyObject, holder: int, size: int) -> int:
        """Note an object that is searched, with the place of the one that holds it (-1: none); returns its place."""
        self._values.append((value, size))
        self._holders.append(holder)
        self._leads_somewhere.append(False)
        return len(self._values) - 1

    def value_at(self, place: int) -> AnyObject:
        """The object at this place; at -1 that which has the first values as attributes, None for variables."""
        return self._values[place][0] if place >= 0 else self._holder_of_roots

    def find(self, holder: int) -> None:
        """A tensor, module or optimizer was found in the object at this place, and so in those that hold it."""
        while holder >= 0 and not self._leads_somewhere[holder]:
            self._leads_somewhere[holder] = True
            holder = self._holders[holder]

    def leads(self, place: int) -> bool:
        """Whether something was found in the object at this place, or may have been missed there."""
        return self._leads_somewhere[place]

    cut = find
    """There was no time for something in the object at this place: the next look must search it again."""

    @property
    def last(self) -> int:
        """The place of the object that was added last."""
        return len(self._values) - 1

    def let_rest(self, memory: SearchMemory) -> None:
        for (value, size), leads_somewhere in zip(self._values, self._leads_somewhere):
            if not leads_somewhere:
                memory.let_rest(value, size)

"""Searches the program's variables for modules, optimizers and tensors, level by level: the shortest name wins.

A meter bounds the search. What it remembers (`rests.py`) makes the next search cheaper.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import compress, count, islice, repeat
from operator import itemgetter
from types import FunctionType
from typing import Any

from gputui.probe.objects.attributes import AttributeReader
from gputui.probe.objects.functions import FunctionFilter
from gputui.probe.objects.kinds import (
    EXCEPTION,
    GENERATOR,
    LOOKED_FOR,
    MAPPING,
    MODULE,
    OPTIMIZER,
    SEQUENCE,
    TENSOR,
    TypeClassifier,
)
from gputui.probe.objects.stacks import Namespace
from gputui.probe.objects.torch_types import AnyObject
from gputui.probe.pace.meter import Meter
from gputui.probe.search.container_lines import Container
from gputui.probe.search.containers import DESCRIBED_AT_MOST, SHORTEST
from gputui.probe.search.records import RECORDS_AT_MOST, Found, RecordReader
from gputui.probe.search.rests import CONTAINERS as OWN_TYPES
from gputui.probe.search.rests import Linked, SearchMemory, Trail, Trees
from gputui.probe.search.variables import (
    SAMPLE,
    ContentReader,
    Contents,
    Elements,
    Level,
    NamedValue,
    named_inside,
    new_tensors,
    size_of,
)
from gputui.protocol.owners import Where

REMEMBERED = frozenset({MODULE, OPTIMIZER})
"""Later looks know these without a search: a second object that leads to one of them may be skipped."""
FINDS = frozenset({TENSOR, MODULE, OPTIMIZER})
CONTAINERS = frozenset({SEQUENCE, MAPPING})
LEVELS = 6
"""How far below a variable a search goes: the keys of `server.sessions['ana'].cache.layers[0]` are six levels below."""
LEVELS_OF_CONTAINERS = 2
"""How many more it goes through lists and dictionaries, as in `self.history['val'][epoch]['logits'][0]`."""
LEVELS_OF_HOOKS, LEVELS_OF_NEW = 6, 4
"""How many levels a search goes below a saved-tensor hook: the closure of a checkpoint's hook leads to a frame object,
dictionaries and tensors. The objects of the first `LEVELS_OF_NEW` levels were made with the hook."""
RECORDS_SHARE = 0.5
"""The share of a search's time for the elements of a long container: the tensors found must be recorded, too."""
TAKEN_PER_STEP = 8
"""How many tensors count as one step of the meter where they are taken in loops of C."""
ELEMENTS_PER_STEP = 64
"""How many elements of a container count as one step of the meter where they are only passed over."""

_value = itemgetter(0)
"""Of a `NamedValue`."""


class VariableSearch:
    """Modules, optimizers and tensors in the order they are found, each object once."""

    def __init__(
        self,
        classifier: TypeClassifier,
        attributes: AttributeReader,
        memory: SearchMemory,
        *,
        is_thorough: bool,
    ) -> None:
        self.found: dict[int, list[NamedValue]] = {kind: [] for kind in LOOKED_FOR}
        self.modules, self.optimizers = self.found[MODULE], self.found[OPTIMIZER]
        self.tensors, self.exceptions = self.found[TENSOR], self.found[EXCEPTION]
        self.generators = self.found[GENERATOR]
        self.containers: list[Container] = []
        """Those in which something was found, the nearest to a variable first; none that only a keeper leads to."""
        self._classifier = classifier
        self._reader = ContentReader(classifier, attributes, memory.containers_at_once)
        self._functions = FunctionFilter(classifier)
        self._records = RecordReader(classifier, attributes)
        self._memory = memory
        self.is_thorough = is_thorough
        """Whether objects that led to nothing in earlier looks are searched as well."""
        self._are_new = False
        """Whether the objects on this level were made lately: their ids may be of freed objects that led to nothing."""
        self.seen: dict[int, Any] = {}
        """What was searched, by id: kept until the search is over, so that no other object gets its id."""
        self.remembered: set[int] = set()
        """The ids of the remembered containers, read before the variables: what comes to one leads to tensors."""
        self._trees = Trees()
        memory.begin()

    def search(self, namespaces: list[Namespace], meter: Meter) -> None:
        """Search these variables."""
        level = []
        for where, _, variables, _ in namespaces:
            level += [
                NamedValue(value, name, where)
                for name, value in self._classifier.of_interest(list(variables.items()))
                if type(value) is not FunctionType or self._functions.holds_something(value)
            ]
        self.explore(level, meter)

    @property
    def finds(self) -> int:
        """How many tensors, modules and optimizers were found."""
        return len(self.tensors) + len(self.modules) + len(self.optimizers)

    def explore(
        self,
        roots: list[NamedValue],
        meter: Meter,
        levels: int = LEVELS,
        holder: AnyObject | None = None,
        *,
        may_rest: bool = True,
    ) -> None:
        """Search these values and what they hold, level by level; `holder` has them as attributes.

        `may_rest`: remember objects that led to nothing, so that the next looks skip them. False for objects that will
        soon be freed, whose ids recur.
        """
        of_interest = list(compress(roots, self._classifier.kinds_of(named.value for named in roots)))
        if not of_interest:
            return
        trail = Trail(holder)
        level: list[tuple[Level, int]] = [(of_interest, -1)]
        for depth in count():
            self._are_new = not may_rest and depth < LEVELS_OF_NEW
            level = self._explore_level(level, trail, meter, beyond=depth - levels)
            if not level:
                break
        self._are_new = False
        self._trees.settle(trail, self.seen)
        if may_rest:
            trail.let_rest(self._memory)
        if any(map(trail.leads, trail.read_in_part)):
            meter.leave_out()
        leading = (container for container, place in trail.containers if trail.leads(place))
        self.containers += islice(leading, DESCRIBED_AT_MOST - len(self.containers))

    def pass_over(self, named: NamedValue, size: int, holder: AnyObject) -> None:
        """Do not search this container of so many elements: the caller reads its tensors, and hands them to `take`."""
        self.seen[id(named.value)] = named.value
        self.remembered.add(id(named.value))
        self.containers.append(Container(named, size, holder))

    def has_remembered(self, values: Iterable[AnyObject]) -> bool:
        """Whether one of these values is a remembered container."""
        return not self.remembered.isdisjoint(map(id, values))

    def take(self, named: NamedValue, found: Found) -> list[NamedValue]:
        """Add tensors that were found in this value; returns those that the search had not found before."""
        known = len(self.tensors)
        is_new = [ident not in self.seen for ident in map(id, found.tensors)]
        self.seen.update(zip(map(id, found.tensors), found.tensors))
        values = zip(found.tensors, found.names, repeat(named.where), repeat(named.keeper))
        self.tensors += map(partial(tuple.__new__, NamedValue), compress(values, is_new))
        return self.tensors[known:]

    def leave_out(self, values: Iterable[AnyObject]) -> None:
        """Do not search what these values hold."""
        self.seen.update((id(value), value) for value in values)

    def search_attributes(self, module: NamedValue, meter: Meter) -> bool:
        """Search a module's attributes but for parameters, buffers and modules; returns whether they led to nothing."""
        found = self.finds
        self.explore(self._reader.module_attributes(module), meter, levels=1, holder=module.value)
        return found == self.finds and not meter.is_over

    def held_by(self, values: list[Any], meter: Meter) -> list[NamedValue]:
        """The tensors to which these values lead, but for those found before; they are not added to `tensors`."""
        known = len(self.tensors)
        self.explore([NamedValue(value, "", "") for value in values], meter, LEVELS_OF_HOOKS, may_rest=False)
        held = self.tensors[known:]
        del self.tensors[known:]
        return held

    def _explore_level(
        self, level: list[tuple[Level, int]], trail: Trail, meter: Meter, *, beyond: int
    ) -> list[tuple[Level, int]]:
        """Take these values, each group with the place of its holder on the trail; returns what they hold.

        From `beyond` 0 on, only finds are taken, and what `_leads_deeper` allows.
        """
        deeper: list[tuple[Level, int]] = []
        for values, holder in level:
            if not self._take_tensors(values, holder, trail, meter):
                singly = values.named() if isinstance(values, Elements) else values
                deeper += self._explore_values(singly, holder, trail, meter, beyond=beyond)
        return deeper

    def _take_tensors(self, values: Level, holder: int, trail: Trail, meter: Meter) -> bool:
        """Take these values in loops of C if all are different tensors; False if they must be taken one by one."""
        found = new_tensors(values, self._classifier, self.seen)
        if found is None:
            return False
        affordable = meter.affordable_steps()  # each must be recorded later
        if len(found) > affordable or not meter.spend(1 + len(found) // TAKEN_PER_STEP):
            del found[affordable:]
            meter.leave_out()
            trail.cut(holder)
        self.seen.update(zip(map(id, map(_value, found)), map(_value, found)))
        self.tensors += found
        trail.find(holder)
        return True

    def _explore_values(
        self, values: list[NamedValue], holder: int, trail: Trail, meter: Meter, *, beyond: int
    ) -> Iterator[tuple[Level, int]]:
        """Take these values one by one; yields what each holds, with the place of that value on the trail."""
        seen, kind_of = self.seen, self._classifier.kind_of
        for named in values:
            value = named.value
            kind = kind_of(value)
            if id(value) in seen:
                self._come_again(value, kind, holder, trail)
                continue
            is_find = kind in LOOKED_FOR and (kind != GENERATOR or "[" not in named.name)
            size = 0 if is_find else size_of(value, kind)
            is_too_deep = not is_find and beyond >= 0 and not self._leads_deeper(value, size, holder, trail, beyond)
            if is_too_deep or (not is_find and self._is_resting(value, size)):
                continue
            if not meter.spend():
                trail.cut(holder)
                continue
            seen[id(value)] = value  # kept until the search is over, so that no other object gets its id
            if kind in CONTAINERS and size <= SAMPLE and self._holds_atoms(value):
                self._memory.let_rest(value, size)
                continue
            if is_find:
                self._take(named, kind, holder, trail)
            if not is_find or kind == OPTIMIZER:
                place = trail.add(named, holder, size)
                yield self._inside(named, kind, size, meter, trail), place

    def _leads_deeper(self, value: AnyObject, size: int, holder: int, trail: Trail, beyond: int) -> bool:
        """Whether to search a value beyond the last level: containers a few levels, in a tree or chain always.

        Objects that may be part of a tree or chain are noted.
        """
        if size:
            return beyond < LEVELS_OF_CONTAINERS or self._trees.has_tensors(trail.value_at(holder))
        self._trees.note_far(value, holder, trail)
        return False

    @property
    def linked(self) -> dict[tuple[str, Where], Linked]:
        """The trees and chains that lead farther than a search goes, by the name and place of their first object."""
        return self._trees.found

    def _come_again(self, value: AnyObject, kind: int, holder: int, trail: Trail) -> None:
        if kind not in REMEMBERED:
            trail.come_again(value, holder, is_find=kind in LOOKED_FOR or id(value) in self.remembered)

    def _is_resting(self, value: AnyObject, size: int) -> bool:
        if self.is_thorough or self._are_new or not self._memory.led_to_nothing(value, size):
            return False
        # an element may have been replaced, or the container may have the id of one that is gone
        return not 0 < size <= SAMPLE or FINDS.isdisjoint(self._kinds_inside(value))

    def _holds_atoms(self, value: AnyObject) -> bool:
        """Whether a container of one of Python's own types holds nothing of interest, told in loops of C."""
        return id(type(value)) in OWN_TYPES and not any(self._kinds_inside(value))

    def _kinds_inside(self, value: AnyObject) -> list[int]:
        return self._classifier.kinds_of(gc.get_referents(value)) if id(type(value)) in OWN_TYPES else []

    def _take(self, named: NamedValue, kind: int, holder: int, trail: Trail) -> None:
        """Add a find; the object at the place `holder` leads to it."""
        self.found[kind].append(named)
        trail.find(holder)
        if kind == TENSOR:
            self._trees.note_tensor(holder, trail)

    def _contents(self, value: AnyObject, kind: int) -> Contents | None:
        """What a value holds; None if another thread keeps changing it while it is read."""
        start = self._memory.starts.get(id(value), 0)
        for _ in range(2):
            with suppress(RuntimeError):  # "deque mutated during iteration", and the like for sets and dictionaries
                return self._reader.read(value, kind, start)
        return None

    def _inside(
        self, named: NamedValue, kind: int, size: int, meter: Meter, trail: Trail
    ) -> list[NamedValue] | Elements:
        """The values of interest in a value of `size` elements, which was added to the trail last."""
        contents = self._contents(named.value, kind)
        if contents is None:
            meter.leave_out()
            trail.cut(trail.last)
            return []
        meter.spend(contents.read // ELEMENTS_PER_STEP)
        inside = named_inside(named, contents)
        if size >= SHORTEST and inside:
            trail.note_container(named, size)
        if not contents.is_whole:
            self._memory.starts[id(named.value)] = contents.next_start
            if not self._read_records(named, kind, size, meter, trail):
                trail.read_in_part.append(trail.last)
        return inside

    def _read_records(self, named: NamedValue, kind: int, size: int, meter: Meter, trail: Trail) -> bool:
        """Take the tensors in the elements of a large container; returns whether all of them were read."""
        count, value = min(size, RECORDS_AT_MOST), named.value
        if not self._memory.reads_records:
            return False
        start = 0 if size == count else self._memory.starts[id(value)]
        found = self._records.elements(value, kind, named.name, start, meter.part(RECORDS_SHARE))
        if size > count:
            self._memory.starts[id(value)] = start + count
        self.take(named, found)
        if found.tensors:
            trail.find(trail.last)
        return found.is_whole and size == count

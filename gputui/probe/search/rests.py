"""What a search remembers for the next, as numbers and weak references: which objects hold no tensors, and where it
stopped reading a long container. Within one search: the objects in trees and chains that lead farther than it goes.
"""

from __future__ import annotations

import weakref
from collections.abc import Container, Iterable
from itertools import repeat
from operator import is_
from typing import Any, NamedTuple

from gputui.probe.objects.kinds import SEQUENCES
from gputui.probe.objects.plain import type_name
from gputui.probe.objects.torch_types import AnyObject
from gputui.probe.search import container_lines
from gputui.probe.search.variables import CONTAINERS_AT_LEAST, CONTAINERS_AT_ONCE, NamedValue
from gputui.protocol.owners import Where

MORE_AT_ONCE = 8
"""By how much `containers_at_once` grows after a search that had time for all variables; after others it is halved."""
SHORTEST_REST = 8
"""How many looks, at least, skip an object that led to nothing."""
SEARCHED_AGAIN = 250
"""About how many objects that led to nothing each look searches again: half a millisecond of work."""
REMEMBERED_AT_MOST = 20_000
CONTAINERS = frozenset(map(id, (dict, *SEQUENCES)))
"""The ids of Python's own container types, without subclasses: these may have attributes."""
FORGETS_EVERY = 64
"""Every so many looks, objects that are no longer to be skipped are forgotten: most of them are gone by then."""


class SearchMemory:
    """Remembers from one search to the next which objects hold no tensors, and where reading of a container stopped.

    With `reads_records`, a search reads thousands of elements that are containers or objects, instead of a hundred.
    """

    def __init__(self, *, reads_records: bool = False) -> None:
        self.reads_records = reads_records
        self.number = 0
        """The number of this search."""
        self.starts: dict[int, int] = {}
        """The number of the element from which to go on in a long container, by the container's id."""
        self.containers_at_once = CONTAINERS_AT_ONCE
        """How many elements of a container a search reads if they are containers or objects themselves."""
        self._rests: dict[int, int] = {}
        """The number of the search that reads an object again which led to nothing, by `_key` of the object."""
        self._optimizers: dict[int, tuple[weakref.ref[Any], str]] = {}

    def begin(self) -> None:
        self.number += 1
        if self.number % FORGETS_EVERY == 0:
            self._rests = {key: until for key, until in self._rests.items() if until > self.number}
        for numbers in (self._rests, self.starts):
            if len(numbers) > REMEMBERED_AT_MOST:
                numbers.clear()

    def note_end(self, *, is_cut: bool) -> None:
        """A search of the first variables has ended; `is_cut`: it had no time for all."""
        at_once = self.containers_at_once // 2 if is_cut else self.containers_at_once + MORE_AT_ONCE
        self.containers_at_once = min(max(at_once, CONTAINERS_AT_LEAST), CONTAINERS_AT_ONCE)

    def led_to_nothing(self, value: AnyObject, size: int) -> bool:
        """Whether an earlier search found nothing in this object, and it need not be searched again yet."""
        return self._rests.get(_key(value, size), 0) > self.number

    def let_rest(self, value: AnyObject, size: int) -> None:
        """Note that an object led to nothing; `size` is its number of elements, 0 for anything but a container."""
        self._rests[_key(value, size)] = self.rests_until(value)

    def rests_until(self, value: AnyObject) -> int:
        """The number of the search that has to read an object again which leads to nothing now."""
        looks = max(SHORTEST_REST, len(self._rests) // SEARCHED_AGAIN)
        return self.number + looks + (id(value) >> 4) % looks  # so that not all end in the same look

    def remember_optimizers(self, optimizers: Iterable[NamedValue]) -> list[NamedValue]:
        """Know these optimizers in later looks too, even if no variable on a stack leads to them then.

        Returns them with the names of earlier looks: which variable leads to an optimizer depends on the moment.
        """
        return [named._replace(name=self._lasting_name(named)) for named in optimizers]

    def _lasting_name(self, named: NamedValue) -> str:
        """The first name but `self`, as its own methods call it; until there is one, the name of its class."""
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
    """Depends on the object's type and size, too, as ids of freed objects recur."""
    return hash((id(value), id(type(value)), size))


class Trail:
    """The objects that one call of `explore` went through, each at a place, its number, and which led to a find."""

    def __init__(self, holder: AnyObject | None) -> None:
        self._holder_of_roots = holder
        self._values: list[tuple[NamedValue, int]] = []
        self._holders: list[int] = []
        self._leads_somewhere: list[bool] = []
        self._places: dict[int, int] = {}
        """The place of each object, by its id."""
        self._again: list[tuple[int, int]] = []
        """The id of each object that was reached a second time, with the place of the second object that holds it."""
        self.containers: list[tuple[container_lines.Container, int]] = []
        """The containers on the trail, each with its place."""
        self.read_in_part: list[int] = []
        """The places of containers of which a part was read."""

    def add(self, named: NamedValue, holder: int, size: int) -> int:
        """Add an object that is searched; `holder`: the place of what holds it, -1 for variables. Returns its place."""
        self._values.append((named, size))
        self._holders.append(holder)
        self._leads_somewhere.append(False)
        self._places[id(named.value)] = self.last
        return self.last

    def note_container(self, named: NamedValue, size: int) -> None:
        """Note that the object added last is a container of this many elements, unless only a keeper leads to it."""
        if not named.keeper:
            self.containers.append(
                (container_lines.Container(named, size, self.value_at(self._holders[-1])), self.last)
            )

    def value_at(self, place: int) -> AnyObject:
        """The object at this place; at -1 the one that has the first values as attributes, None if none has."""
        return self._values[place][0].value if place >= 0 else self._holder_of_roots

    def holder_of(self, place: int) -> int:
        """The place of what holds the object at this place; -1 if it is one of the first values."""
        return self._holders[place]

    def first_of_class(self, place: int, cls: type) -> NamedValue | None:
        """The object of this class nearest to the variable, on the way from there down to this place, inclusive."""
        first = None
        while place >= 0:
            named = self._values[place][0]
            first = named if type(named.value) is cls else first
            place = self._holders[place]
        return first

    def find(self, holder: int) -> None:
        """A tensor, module or optimizer was found in the object at this place, and so in those that hold it."""
        while holder >= 0 and not self._leads_somewhere[holder]:
            self._leads_somewhere[holder] = True
            holder = self._holders[holder]

    def come_again(self, value: AnyObject, holder: int, *, is_find: bool) -> None:
        """The object at this place also leads to a value reached before, maybe through a variable that is soon gone."""
        if is_find:
            self.find(holder)
        else:
            self._again.append((id(value), holder))

    def leads(self, place: int) -> bool:
        """Whether something was found below the object at this place, or may have been missed there."""
        return self._leads_somewhere[place]

    cut = find
    """There was no time for something in the object at this place: the next look must search it again."""

    @property
    def last(self) -> int:
        """The place of the object that was added last."""
        return len(self._values) - 1

    def let_rest(self, memory: SearchMemory) -> None:
        for ident, holder in reversed(self._again):
            place = self._places.get(ident)
            if place is not None and self._leads_somewhere[place]:
                self.find(holder)
        for (named, size), leads_somewhere in zip(self._values, self._leads_somewhere):
            if not leads_somewhere:
                memory.let_rest(named.value, size)


class Linked(NamedTuple):
    """A tree or chain of objects of one class: its first object, and the objects at which a search has stopped."""

    first: NamedValue
    starts: list[Any]


class Trees:
    """The trees and chains that one search comes to."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, Where], Linked] = {}
        """By the name and place of the first object of each."""
        self._far: list[tuple[Any, int]] = []
        """Objects farther from a variable than a search goes, with the places of their holders on the trail."""
        self._with_tensors: set[int] = set()
        """The ids of the classes whose objects have tensors, as attributes or in containers."""

    def has_tensors(self, value: AnyObject) -> bool:
        """Whether objects of its class have tensors."""
        return id(type(value)) in self._with_tensors

    def note_tensor(self, holder: int, trail: Trail) -> None:
        """The object at this place has a tensor: note its class, or that of the nearest holder that is no container."""
        while holder >= 0 and id(type(trail.value_at(holder))) in CONTAINERS:
            holder = trail.holder_of(holder)
        cls = id(type(trail.value_at(holder)))
        if cls not in CONTAINERS:
            self._with_tensors.add(cls)

    def note_far(self, value: AnyObject, holder: int, trail: Trail) -> None:
        """Note a value for which a search has no more levels, if it may be part of a tree or chain."""
        above = trail.value_at(holder), trail.value_at(trail.holder_of(holder)) if holder >= 0 else None
        if self.has_tensors(value) and any(map(is_, map(type, above), repeat(type(value)))):
            self._far.append((value, holder))

    def settle(self, trail: Trail, seen: Container[int]) -> None:
        """Find the first object of each tree or chain of which a part was noted and not searched otherwise."""
        for value, holder in self._far:
            first = trail.first_of_class(holder, type(value))
            if first is not None and id(value) not in seen:
                self.found.setdefault((first.name, first.where), Linked(first, [])).starts.append(value)
                trail.find(holder)
        self._far = []

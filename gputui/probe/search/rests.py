"""What a search learns on its way: which objects lead to nothing, how far it got in a large container, and which
objects make up trees and chains that lead farther than it goes.

What the next search needs is kept as numbers; optimizers are kept by weak references.
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
"""By how much a search that had time for all lets the next one read more elements of each container."""
SHORTEST_REST = 8
"""For how many looks, at least, an object that led to nothing is not searched again."""
SEARCHED_AGAIN = 250
"""How many of those objects are searched again in each look, about: half a millisecond of work."""
REMEMBERED_AT_MOST = 20_000
CONTAINERS = frozenset(map(id, (dict, *SEQUENCES)))
"""The ids of Python's own containers: a subclass may have attributes."""
FORGETS_EVERY = 64
"""How often the objects that need not be skipped any more are forgotten, in looks: most of them are gone by then."""


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
        self.containers_at_once = CONTAINERS_AT_ONCE
        """How many elements of a container, which hold others, a search reads."""
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

    def note_end(self, *, is_cut: bool) -> None:
        """A search of the first variables has ended, or had no time for all."""
        at_once = self.containers_at_once // 2 if is_cut else self.containers_at_once + MORE_AT_ONCE
        self.containers_at_once = min(max(at_once, CONTAINERS_AT_LEAST), CONTAINERS_AT_ONCE)

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


class Trail:
    """The objects that one exploration went through, by which it learns which of them lead to nothing."""

    def __init__(self, holder: AnyObject | None) -> None:
        self._holder_of_roots = holder
        self._values: list[tuple[NamedValue, int]] = []
        self._holders: list[int] = []
        self._leads_somewhere: list[bool] = []
        self._places: dict[int, int] = {}
        """By the id of the object."""
        self._again: list[tuple[int, int]] = []
        """The ids of objects that were searched before, each with the place of another object that holds them."""
        self.containers: list[tuple[container_lines.Container, int]] = []
        """The containers on it, each with its place."""
        self.read_in_part: list[int] = []
        """The places of containers of which a part was read."""

    def add(self, named: NamedValue, holder: int, size: int) -> int:
        """Note an object that is searched, with the place of the one that holds it (-1: none); returns its place."""
        self._values.append((named, size))
        self._holders.append(holder)
        self._leads_somewhere.append(False)
        self._places[id(named.value)] = self.last
        return self.last

    def note_container(self, named: NamedValue, size: int) -> None:
        """The object that was added last is a container of this many elements; those of keepers do not count."""
        if not named.keeper:
            self.containers.append(
                (container_lines.Container(named, size, self.value_at(self._holders[-1])), self.last)
            )

    def value_at(self, place: int) -> AnyObject:
        """The object at this place; at -1 that which has the first values as attributes, None for variables."""
        return self._values[place][0].value if place >= 0 else self._holder_of_roots

    def holder_of(self, place: int) -> int:
        """The place of the object that holds the one at this place; -1 if a variable does."""
        return self._holders[place]

    def first_of_class(self, place: int, cls: type) -> NamedValue | None:
        """The first object of this class on the way down to the one at this place, which is included."""
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
        """The object at this place also leads to a value that was reached before, maybe by a variable soon gone."""
        if is_find:
            self.find(holder)
        else:
            self._again.append((id(value), holder))

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
        for ident, holder in reversed(self._again):
            place = self._places.get(ident)
            if place is not None and self._leads_somewhere[place]:
                self.find(holder)
        for (named, size), leads_somewhere in zip(self._values, self._leads_somewhere):
            if not leads_somewhere:
                memory.let_rest(named.value, size)


class Linked(NamedTuple):
    """A tree or chain: its first object, and those of its objects at which a search has stopped."""

    first: NamedValue
    starts: list[Any]


class Trees:
    """The trees and chains that one search comes to."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, Where], Linked] = {}
        """By the names and places of the variables that lead to their first objects."""
        self._far: list[tuple[Any, int]] = []
        """Objects farther from a variable than a search goes, with the places of their holders on the trail."""
        self._with_tensors: set[int] = set()
        """The ids of the classes of objects that have tensors, also in containers of their own."""

    def has_tensors(self, value: AnyObject) -> bool:
        """Whether objects of its class have tensors."""
        return id(type(value)) in self._with_tensors

    def note_tensor(self, holder: int, trail: Trail) -> None:
        """The object at this place has a tensor: so has the one that holds it, if it is a container."""
        while holder >= 0 and id(type(trail.value_at(holder))) in CONTAINERS:
            holder = trail.holder_of(holder)
        cls = id(type(trail.value_at(holder)))
        if cls not in CONTAINERS:
            self._with_tensors.add(cls)

    def note_far(self, value: AnyObject, holder: int, trail: Trail) -> None:
        """A search has no more levels for this value, which may be part of a tree or chain."""
        above = trail.value_at(holder), trail.value_at(trail.holder_of(holder)) if holder >= 0 else None
        if self.has_tensors(value) and any(map(is_, map(type, above), repeat(type(value)))):
            self._far.append((value, holder))

    def settle(self, trail: Trail, seen: Container[int]) -> None:
        """Find the first objects of those trees whose parts were noted."""
        for value, holder in self._far:
            first = trail.first_of_class(holder, type(value))
            if first is not None and id(value) not in seen:
                self.found.setdefault((first.name, first.where), Linked(first, [])).starts.append(value)
                trail.find(holder)
        self._far = []

"""What `gc.collect()` would free, found in parts, and proven as Python's garbage collector does it.

Some stops list what each object refers to, a part of the objects in each. Between them, the probe's thread subtracts
these references from what Python counts, which leaves candidates: objects that, as far as is known, only each other
refer to. The last stop proves it of those that are there then (`names/cycles.py`). Objects in a cycle that nobody can
reach stay as they are, so it does no harm that the program has run meanwhile. Nothing of the program is kept between
two stops, only addresses.
"""

from __future__ import annotations

import gc
import sys
import weakref
from array import array
from collections.abc import Iterator
from itertools import accumulate, chain, compress, count, islice, repeat
from operator import not_
from time import thread_time
from typing import Any, NamedTuple

from gputui.probe.names.cycles import closed_by, closed_part, closing, cycles_of, is_of_program
from gputui.probe.objects import plain
from gputui.probe.objects.torch_types import AnyObject, Torch
from gputui.probe.pace.meter import Meter
from gputui.probe.tensors.going import Countdown, Going, held_in_two, may_stay

OBJECTS_IN_TURN = 4_000
"""So many objects are read before the time is looked at: 3 ms."""
OVERLAP = 4_000
"""So many objects before the last one are read again: others that were freed meanwhile have moved it."""
REFERENCES_IN_TURN = 20_000
"""So many references are counted as one piece of work: 5 ms, in which no other thread of the program runs."""
_GENERATIONS = 3


class References:
    """The references among all objects, by address, read in parts: one generation of the collector after the other.

    In its list of a generation, what comes later is newer, until it collects that generation.
    """

    def __init__(self) -> None:
        self._generation = self._place = 0
        self._last = 0
        """The address of the last object that was read of this generation."""
        self._collections = _collections()
        self._numbers: dict[int, int] = {}
        """The number of each object, by address."""
        self._counts, self._referents, self._starts = array("q"), array("Q"), array("Q", [0])
        """By number: references from elsewhere, and where what the object refers to begins among all referents.

        Numbers in arrays and one dictionary, as a set or a counter of addresses takes ten times the memory."""
        self._tensors: set[int] = set()
        self.is_broken = False
        """Whether objects may have been passed over: then all has to be read again."""

    def read_part(self, classes: set[int], limit_ms: float) -> bool:
        """Read the next objects, in a stop in which no garbage is collected; returns whether some are left.

        `classes` are the ids of the classes of tensors. A part is read even where the list of objects takes all time.
        """
        ends_at = thread_time() + limit_ms / 1000
        while self._generation < _GENERATIONS:
            objects = gc.get_objects(generation=self._generation)
            self.is_broken = _collections() != self._collections or not self._is_where_it_was(objects)
            while self._place < len(objects) and not self.is_broken:
                self._read(objects[self._place : self._place + OBJECTS_IN_TURN], classes)
                self._place += OBJECTS_IN_TURN
                if thread_time() > ends_at:
                    return True
            if self.is_broken:
                return False
            self._generation, self._place, self._last = self._generation + 1, 0, 0
        return False

    def _is_where_it_was(self, objects: list[Any]) -> bool:
        """Whether the last object is found again, a little before where it was; then it goes on from there."""
        first = max(0, self._place - OVERLAP)
        before = list(map(id, objects[first : self._place]))
        if not self._last:
            return True
        if self._last not in before:
            return False
        self._place = first + before.index(self._last) + 1
        return True

    def _read(self, part: list[Any], classes: set[int]) -> None:
        self._last = id(part[-1])
        part = list(compress(part, map(not_, map(self._numbers.__contains__, map(id, part)))))
        held_here = held_in_two()
        self._numbers.update(zip(map(id, part), count(len(self._counts))))
        self._counts.extend(map(held_here.__rsub__, map(sys.getrefcount, part)))
        self._tensors.update(map(id, compress(part, map(classes.__contains__, map(id, map(type, part))))))
        referents = list(map(gc.get_referents, part))
        ends = accumulate(map(len, referents), initial=len(self._referents))
        self._starts.extend(islice(ends, 1, None))
        self._referents.extend(map(id, chain.from_iterable(referents)))

    def unreachable(self) -> Iterator[set[int]]:
        """Between stops: find the addresses of objects to which, by what was read, nothing leads from outside.

        Only those that lead to tensors. What comes last is the answer, and each item before it ends a piece of work.
        """
        for _ in self._subtract():
            yield set()
        is_held = bytearray(map((0).__lt__, self._counts))
        is_held[-1] = True
        held = list(compress(range(len(is_held) - 1), is_held))
        yield set()
        while held:
            found: list[int] = []
            for first in range(0, len(held), OBJECTS_IN_TURN):
                for number in held[first : first + OBJECTS_IN_TURN]:
                    for other in self._referents_of(number):
                        if not is_held[other]:
                            is_held[other] = True
                            found.append(other)
                yield set()
            held = found
        left = dict(compress(zip(count(), self._numbers), map(not_, is_held)))
        yield _leading_to(self._tensors, {at: self._addresses(number, left) for number, at in left.items()})

    def _subtract(self) -> Iterator[None]:
        """Replace referents by their numbers, a last one for all that are no objects here, and count them down."""
        elsewhere = len(self._counts)
        self._counts.append(0)
        for first in range(0, len(self._referents), REFERENCES_IN_TURN):
            numbers = list(
                map(self._numbers.get, self._referents[first : first + REFERENCES_IN_TURN], repeat(elsewhere))
            )
            self._referents[first : first + len(numbers)] = array("Q", numbers)
            for number in numbers:
                self._counts[number] -= 1
            yield

    def _referents_of(self, number: int) -> array[int]:
        return self._referents[self._starts[number] : self._starts[number + 1]]

    def _addresses(self, number: int, left: dict[int, int]) -> list[int]:
        """The addresses of what an object refers to, of those that are left."""
        return [left[other] for other in self._referents_of(number) if other in left]


def _leading_to(ends: set[int], referents: dict[int, list[int]]) -> set[int]:
    """Those of these objects that lead to one of `ends`, and are not such an end that nothing leads to."""
    holders: dict[int, list[int]] = {}
    for at, held in referents.items():
        for other in held:
            holders.setdefault(other, []).append(at)
    found: set[int] = set()
    pending = [end for end in ends if end in referents or end in holders]
    while pending:
        at = pending.pop()
        if at not in found:
            found.add(at)
            pending += holders.get(at, ())
    return found & referents.keys()


def _collections() -> int:
    """How often Python has collected all generations."""
    return int(gc.get_stats()[-1]["collections"])


class Part(NamedTuple):
    """One cycle: an object of it if there can be weak references to it, and its storages, each as [address, bytes]."""

    sample: weakref.ref[Any] | None
    objects: int
    """How many objects of the group's class there are in it."""
    storages: list[list[int]]

    @property
    def is_there(self) -> bool:
        """Whether it was not collected, as far as that is known."""
        return self.sample is None or self.sample() is not None


class Group(NamedTuple):
    """Cycles of one kind that keep storages on one device."""

    device: int
    type: str
    closed_by: str
    name: str
    parts: list[Part]


def proven(torch: Torch, candidates: set[int], meter: Meter) -> tuple[list[Group], bool]:
    """What `gc.collect()` would free now, and whether there was time to find out; in a stop."""
    objects, staying = _listed(torch, candidates)
    closed = closed_part(objects)
    left = set(map(id, closed))
    staying += [value for value in objects if id(value) not in left]
    del objects
    cycles, groups = cycles_of(closed)
    countdown = Countdown(torch, groups, staying, meter)
    taken: dict[int, list[Going]] = {}
    for storage in countdown.storages(closed):
        taken.setdefault(storage.group, []).append(storage)
    return _described(cycles, taken), countdown.is_whole


def _listed(torch: Torch, candidates: set[int]) -> tuple[list[Any], list[Any]]:
    """The candidates, and the tensors and nodes of graphs that are none."""
    objects = gc.get_objects()
    are_candidates = list(map(candidates.__contains__, map(id, objects)))
    classes = list(map(type, objects))
    lead_on = {ident: may_stay(torch, cls) for ident, cls in dict(zip(map(id, classes), classes)).items()}
    others = compress(objects, map(lead_on.__getitem__, map(id, classes)))
    staying = [value for value in others if id(value) not in candidates]
    return list(compress(objects, are_candidates)), staying


def _described(cycles: list[list[Any]], taken: dict[int, list[Going]]) -> list[Group]:
    """Cycles of one kind as one group for each device."""
    found: dict[tuple[int, str], Group] = {}
    for number, storages in taken.items():
        cycle = cycles[number]
        closed = closed_by(cycle) or plain.type_name(cycle[0])
        cls = type(next(filter(is_of_program, cycle), cycle[0]))
        count = sum(type(value) is cls for value in cycle)
        sample = next(map(weakref.ref, filter(_can_have_references, cycle)), None)
        for device in dict.fromkeys(storage.device for storage in storages):
            fields = device, plain.class_name(cls), closing(cycle), f"A cycle of {closed}"
            group = found.setdefault((device, closed), Group(*fields, []))
            held = [[at.address, at.size_bytes] for at in storages if at.device == device]
            group.parts.append(Part(sample, count, held))
    return list(found.values())


def _can_have_references(value: AnyObject) -> bool:
    return bool(plain.weakrefs_of(type(value)))

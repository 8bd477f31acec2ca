"""Python's objects: the young ones in every look, all of them in a scan, in parts where they are too many."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from functools import partial
from itertools import compress
from typing import Any

from gputui.probe.objects import plain
from gputui.probe.objects.kinds import LOOKED_FOR, TypeClassifier
from gputui.probe.objects.listing import classes_of, finished, of_classes
from gputui.probe.pace.meter import Meter

YOUNG_AT_MOST = 10_000
"""How many objects of a young generation are read: without a collection, all that a program makes stay young."""
LISTED_PER_STEP = 150
"""How many of the interpreter's memory blocks can be listed as objects and let go in one step of the meter (3 us)."""
SORTED_PER_STEP = 12
"""How many objects can be sorted by type in one step: most of them are not in the processor's cache."""
TAKEN_PER_STEP = 6
"""How many objects can be taken from the list, without unfinished tuples, and sorted by type in one step."""
SORTED_AT_LEAST = 16_000
"""How many objects are sorted, 3 to 8 ms of work, even if listing them took longer than expected: otherwise no later
scan would come further, either."""

PIECE = 8_000
"""How many objects are sorted before the clock is read again: 4 ms on a slow machine."""

FROZEN = "The program has called gc.freeze(): objects created before it are found only through variables."

TOO_MANY = (
    "The program has too many Python objects to go through all of them in one stop: only variables were searched."
)


class LongGenerations:
    """Which of the collector's generations were too long to be read: later looks pass over them. Of one process.

    Only a list of a generation tells its length, and takes 10 ms for a million objects. `gc.get_count` counts what was
    made less what was freed: in a replay buffer, where each new object replaces an old one, that stays 0.
    """

    def __init__(self) -> None:
        self._passed_over: dict[int, tuple[int, int]] = {}
        """By generation, for how many more looks, and how often it had been emptied before the last one."""

    def note(self, generation: int, length: int) -> None:
        """Pass over it in so many looks that its list has cost each of them little.

        Only those count before which a collection came: without one, the generation is as long as it was.
        """
        self._passed_over[generation] = length // YOUNG_AT_MOST, _times_emptied(generation)

    def pass_over(self, generation: int) -> bool:
        """Whether this look passes over it."""
        looks, emptied = self._passed_over.get(generation, (0, 0))
        if looks:
            now = _times_emptied(generation)
            self._passed_over[generation] = looks - (now != emptied), now
        return looks > 0


class Heap:
    """Finds tensors, modules, exceptions, generators and optimizers among Python's objects."""

    def __init__(self, classifier: TypeClassifier) -> None:
        self._classifier = classifier
        self.has_frozen = False
        """Whether `gc.freeze()` hid objects from the last call of `all`."""

    def young(self, long: LongGenerations) -> dict[int, list[Any]]:
        """The finds among objects made lately, by kind: the intermediate results of a step are among them."""
        found = self._by_kind([])
        for generation in (0, 1) if gc.get_count()[0] <= YOUNG_AT_MOST else (1,):
            if not long.pass_over(generation):
                self._add_young(found, generation, long)
        return found

    def _add_young(self, found: dict[int, list[Any]], generation: int, long: LongGenerations) -> None:
        list_objects = partial(gc.get_objects, generation=generation)
        listed, length = classes_of(list_objects, YOUNG_AT_MOST)
        if length > YOUNG_AT_MOST:
            long.note(generation, length)
            return
        classes = plain.by_id(listed)
        kinds = dict(zip(classes, self._classifier.kinds_of_classes(list(classes.values()))))
        for value in of_classes(list_objects, {ident for ident, kind in kinds.items() if kind in found}):
            found[kinds[id(type(value))]].append(value)

    def all(self, meter: Meter, start: int) -> tuple[dict[int, list[Any]], int]:
        """The finds from object number `start` on, by kind, and where the next scan has to go on (0: at the start).

        Listing the objects is one call of C, which cannot be interrupted: ask `may_visit_all` first.
        """
        meter.spend(_list_steps())
        in_turn = max(SORTED_AT_LEAST, meter.affordable_steps() * TAKEN_PER_STEP)
        objects = finished(gc.get_objects, start, start + in_turn)
        if start and not objects:
            start, objects = 0, finished(gc.get_objects, 0, in_turn)
        if not start:
            self.has_frozen = has_frozen(objects)
        found, end = self._by_kind([]), 0
        while end < len(objects) and (end < SORTED_AT_LEAST or meter.spend(PIECE // SORTED_PER_STEP)):
            for kind, values in self._by_kind(objects[end : end + PIECE]).items():
                found[kind] += values
            end = min(end + PIECE, len(objects))
        if end < len(objects) or len(objects) == in_turn:
            meter.leave_out()
            return found, start + end
        return found, 0

    @staticmethod
    def may_visit_all(meter: Meter) -> bool:
        """Whether there is time for a call of C that visits every object."""
        return meter.affordable_steps() >= _list_steps()

    def _by_kind(self, objects: list[Any]) -> dict[int, list[Any]]:
        kinds: dict[int, list[Any]] = {kind: [] for kind in LOOKED_FOR}
        found = self._classifier.kinds_of(objects)
        is_find = list(map(kinds.__contains__, found))
        for kind, value in zip(compress(found, is_find), compress(objects, is_find)):
            kinds[kind].append(value)
        return kinds


def has_frozen(objects: Iterable[Any]) -> bool:
    """Whether `gc.freeze()` has hidden objects: the module `sys`, the oldest, is then not among these first ones.

    `gc.get_freeze_count()` visits all that is frozen: 0.1 s in a server.
    """
    return id(sys) not in map(id, objects)


def _list_steps() -> int:
    return sys.getallocatedblocks() // LISTED_PER_STEP


def _times_emptied(generation: int) -> int:
    """How many collections have moved on what was in a generation."""
    return sum(of_generation["collections"] for of_generation in gc.get_stats()[generation:])

"""Python's objects: the young ones in every look, all of them in a scan, in parts where they are too many."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, compress, repeat
from operator import methodcaller
from typing import Any

from gputui.probe.objects import plain
from gputui.probe.objects.kinds import EXCEPTION, GENERATOR, MODULE, OPTIMIZER, TENSOR, TypeClassifier
from gputui.probe.pace.meter import Meter

YOUNG_AT_MOST = 10_000
"""Young objects: with a garbage collector that the program has switched off, all that it makes are young."""
LISTED_PER_STEP = 150
"""So many memory blocks of the interpreter take as long as a step of a look (3 us) to list as objects and let go."""
SORTED_PER_STEP = 18
"""The same for objects to be sorted out by type, most of them not in a processor's cache."""
SORTED_AT_LEAST = 16_000
"""So many objects are sorted, 3 to 8 ms of work, even where it took longer than expected to list them: otherwise no
later scan would come further, either."""

PIECE = 8_000
"""So many objects are sorted before the clock is read again: on a slow machine 4 ms."""

FROZEN = "The program has called gc.freeze(): objects created before it are found only through variables."

TOO_MANY = (
    "The program has too many Python objects to go through all of them in one stop: only variables were searched."
)


_call = methodcaller("__call__")


def _elements(get_objects: Callable[[], list[Any]]) -> Iterator[Any]:
    """What this function of C lists when it is asked for the first one; nothing holds the list any longer then."""
    return chain.from_iterable(map(_call, (get_objects,)))


class Heap:
    """Finds tensors, modules, exceptions, generators and optimizers among Python's objects."""

    def __init__(self, classifier: TypeClassifier) -> None:
        self._classifier = classifier
        self.has_frozen = False
        """Whether `gc.freeze()` hid objects from the last call of `all`."""

    def young(self) -> dict[int, list[Any]]:
        """Those made lately, by kind: the intermediate results of a step are among them."""
        thresholds = gc.get_threshold()
        found = self._by_kind([])
        for generation, objects in enumerate((gc.get_count()[0], thresholds[0] * thresholds[1])):
            if objects <= YOUNG_AT_MOST:
                self._add_young(found, partial(gc.get_objects, generation=generation))
        return found

    def _add_young(self, found: dict[int, list[Any]], get_objects: Callable[[], list[Any]]) -> None:
        """Add the finds among what this function lists, holding none of the others between two calls of C.

        Another thread may be in the middle of making a tuple, as in `tuple(row for row in rows)`: Python raises
        SystemError there if anything else refers to it by the time it is full.
        """
        classes = plain.by_id(list(map(type, _elements(get_objects)))[:YOUNG_AT_MOST])
        kinds = dict(zip(classes, self._classifier.kinds_of_classes(list(classes.values()))))
        finds = {ident: kind for ident, kind in kinds.items() if kind in found}
        # No other thread runs in between: both list the same, the second one also the list of the first. Both are gone
        # through to their ends, as they have the iterators themselves: that cycle would keep all that is young.
        are_finds = map(finds.__contains__, map(id, map(type, _elements(get_objects))))
        for value in list(compress(chain(_elements(get_objects), repeat(None)), are_finds)):
            kind = finds.get(id(type(value)))
            if kind is not None:  # an audit hook of the program may have run between the two lists
                found[kind].append(value)

    def all(self, meter: Meter, start: int) -> tuple[dict[int, list[Any]], int]:
        """All of them from object number `start` on, by kind, and where the next scan has to go on (0: at the start).

        Listing the objects is one call of C, which cannot be interrupted: ask `may_visit_all` first.
        """
        meter.spend(_list_steps())
        objects = gc.get_objects()
        self.has_frozen = has_frozen(objects)
        start = start if start < len(objects) else 0
        found, end = self._by_kind([]), start
        while end < len(objects) and (end < start + SORTED_AT_LEAST or meter.spend(PIECE // SORTED_PER_STEP)):
            for kind, values in self._by_kind(objects[end : end + PIECE]).items():
                found[kind] += values
            end += PIECE
        if end < len(objects):
            meter.leave_out()
        return found, end if end < len(objects) else 0

    @staticmethod
    def may_visit_all(meter: Meter) -> bool:
        """Whether there is time for a call of C that visits every object."""
        return meter.affordable_steps() >= _list_steps()

    def _by_kind(self, objects: list[Any]) -> dict[int, list[Any]]:
        kinds: dict[int, list[Any]] = {TENSOR: [], MODULE: [], EXCEPTION: [], GENERATOR: [], OPTIMIZER: []}
        found = self._classifier.kinds_of(objects)
        is_find = list(map(kinds.__contains__, found))
        for kind, value in zip(compress(found, is_find), compress(objects, is_find)):
            kinds[kind].append(value)
        return kinds


def has_frozen(objects: list[Any]) -> bool:
    """Whether `gc.freeze()` keeps some out of all objects: the module `sys`, the oldest, is then among those.

    `gc.get_freeze_count()` visits all that is frozen: 0.1 s in a server.
    """
    return id(sys) not in map(id, objects)


def _list_steps() -> int:
    return sys.getallocatedblocks() // LISTED_PER_STEP

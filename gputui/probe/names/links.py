"""Trees and chains of objects of one class that have tensors as attributes: a linked list of states, a search tree.

A search gives each object on its way a name, and goes six levels down; a chain may have thousands of objects. Here the
objects below the first are visited in loops of C, and their tensors share one name: `last[...].hidden`. If a look has
no time for all of them, the next look takes what is new at the top and goes on where this one stopped.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import suppress
from itertools import compress, islice, repeat
from operator import is_, not_
from typing import Any

from gputui.probe.objects import plain
from gputui.probe.objects.handles import Handle, handle_of, objects_of
from gputui.probe.objects.kinds import TypeClassifier
from gputui.probe.objects.torch_types import AnyObject
from gputui.probe.pace.meter import Meter
from gputui.probe.search.rests import CONTAINERS

CONTAINERS_BETWEEN = 3
"""How many containers may lie between two of the objects: its namespace, a dictionary of children, a list in that."""
SAMPLE = 32
"""If this many elements of a container are of no interest, the others are taken to be like them."""
ELEMENTS_AT_MOST = 4096
"""A container of more elements is no list of children: a search reads it in parts."""
AT_ONCE = 64
"""How many objects are handed over together, so that their tensors can be read in loops of C."""
HANDLES_AT_ONCE = 32
"""How many objects that earlier looks have left are looked up at once: 30 us each."""
FEW = 8
"""Fewer objects than this left to visit are taken for ends of chains, and one is followed object by object."""
VISITED_PER_STEP = 4
KNOWN_AT_MOST = 100_000
"""With more ids of visited objects, some 6 MB, the pass begins again."""


class Place:
    """How far looks came below one object; it keeps nothing of the program's alive."""

    def __init__(self) -> None:
        self.passed: set[int] = set()
        """The ids of the objects that this pass has visited."""
        self.left: dict[Handle, None] = {}
        """The objects that the last look had no more time for, each once; none once a pass has come to the end."""

    def put_back(self, objects: list[Any]) -> None:
        """Leave these objects, which were visited, to the next look: there was no time for their tensors."""
        self.passed.difference_update(map(id, objects))
        self.left.update(dict.fromkeys(map(handle_of, objects)))


class Links:
    """Visits the objects of one class below others, each once."""

    def __init__(self, cls: type, classifier: TypeClassifier, seen: dict[int, Any]) -> None:
        self._cls = cls
        self._classifier = classifier
        self._seen = seen
        """What was visited, by id: kept until the search is over, so that no other object gets its id."""

    def below(self, starts: list[Any], place: Place, meter: Meter) -> Iterator[list[Any]]:
        """These objects and all below them, some at a time, but for those that `place` has passed.

        If there was no time for all, `place` says where the next call goes on.
        """
        if not place.left or len(place.passed) > KNOWN_AT_MOST:
            place.passed.clear()
            place.left = {}
        yield from self._visit([*starts], place, meter)
        while place.left and not meter.is_over:
            some = list(place.left)[-HANDLES_AT_ONCE:]
            for handle in some:
                del place.left[handle]
            yield from self._visit([value for value in objects_of(some) if value is not None], place, meter)

    def _visit(self, left: list[Any], place: Place, meter: Meter) -> Iterator[list[Any]]:
        """Visit these objects and those below them, the last first, so that few are left to visit at any moment."""
        batch: list[Any] = []
        while left:
            if not meter.spend(1 + AT_ONCE // VISITED_PER_STEP):
                place.put_back(left)
                break
            last = left[-AT_ONCE:]
            del left[-AT_ONCE:]
            some = list(compress(last, map(not_, map(place.passed.__contains__, map(id, last)))))
            self._seen.update(zip(map(id, some), some))
            if 0 < len(some) < FEW:
                some += self._ahead(some[-1], place.passed)
            left += self._next(some)
            place.passed.update(map(id, some))
            batch += some
            if len(batch) >= AT_ONCE:
                yield batch
                batch = []
        if batch:
            yield batch

    def _ahead(self, value: AnyObject, passed: set[int]) -> list[Any]:
        """Some objects that follow this one in a chain, found one after the other, as a chain allows no other way."""
        chain: list[Any] = []
        while len(chain) < AT_ONCE:
            referents = gc.get_referents(value)
            inside = [own for own in referents if type(own) is dict and len(own) <= ELEMENTS_AT_MOST]
            referents += gc.get_referents(*inside)
            following = (found for found in referents if type(found) is self._cls and id(found) not in self._seen)
            value = next(following, None)
            if value is None or id(value) in passed:
                break
            self._seen[id(value)] = value
            chain.append(value)
        return chain

    def _next(self, level: list[Any]) -> list[Any]:
        """The objects of the class to which these lead, directly or through containers, but for those seen before."""
        found: dict[int, Any] = {}
        for _ in range(1 + CONTAINERS_BETWEEN):
            if not level:
                break
            referents = gc.get_referents(*level)
            types = list(map(type, referents))
            found.update(plain.by_id(compress(referents, map(is_, types, repeat(self._cls)))))
            inside = compress(referents, map(CONTAINERS.__contains__, map(id, types)))
            level = [value for ident, value in plain.by_id(inside).items() if self._is_to_follow(ident, value)]
        return [value for ident, value in found.items() if ident not in self._seen]

    def _is_to_follow(self, ident: int, container: AnyObject) -> bool:
        """Whether a container may lead to objects of the class, and was not followed before."""
        if ident in self._seen or not 0 < len(container) <= ELEMENTS_AT_MOST:
            return False
        self._seen[ident] = container
        with suppress(RuntimeError):  # another thread changes it
            values = container.values() if type(container) is dict else container
            return any(self._classifier.kinds_of(islice(values, SAMPLE)))
        return False

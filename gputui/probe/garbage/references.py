"""Reads the references among all Python objects, by address, a part in each stop.

The program runs between two stops. That does no harm: a cycle that nothing refers to from outside stays as it is, and
what the viewer concludes from all parts is proven in one last stop (`proof.py`).
"""

from __future__ import annotations

import gc
import sys
from array import array
from functools import partial
from itertools import chain, compress, count
from typing import Any, NamedTuple

from gputui.probe.garbage.going import held_in_two, is_node
from gputui.probe.guards.originals import thread_time
from gputui.probe.objects.listing import finished
from gputui.probe.objects.torch_types import Torch

OBJECTS_IN_TURN = 4_000
"""How many objects are read between two looks at the clock: 3 ms."""
OVERLAP = 4_000
"""Among how many objects before its place the last object is looked for: it moves as others before it are freed."""
TAIL = 512
"""How many addresses at the end of a part are kept: the very last object may be freed, such as one of the probe's."""
LISTED_AT_MOST = 100_000
"""How many objects are listed at once: more than a stop has time to read."""
READ_FOR_A_LIST = 4
"""A stop may take this many times as long as listing its objects takes, even where that is over its limit."""
_GENERATIONS = 3
_tail: dict[int, frozenset[int]] = {}
"""The addresses at the end of the newest part, by the address of its last object; there is one entry at most."""


class Place(NamedTuple):
    """Where to go on: `position` is an index in Python's list of a generation, in which newer objects come later.

    `last` is the address of the object that was read last. `collections` is how often Python had collected the oldest
    generation, which moves objects between the lists: once it has done so again, all has to be read again.
    """

    generation: int
    position: int
    last: int
    collections: int


class Part:
    """What was read of each object in one stop: its address, its reference count, and what it refers to."""

    def __init__(self) -> None:
        self.addresses, self.types = array("Q"), array("Q")
        """The address of each object, and of its type."""
        self.counts = array("q")
        self.lengths, self.referents = array("I"), array("Q")
        """How many objects each object refers to; and the addresses of all these, one object's after another's."""
        self.tensors, self.nodes = array("I"), array("I")
        """The indices in this part of the tensors, and of the nodes of autograd graphs."""
        self.next: Place | None = None
        """Where to go on; None at the end."""
        self.is_broken = False
        """Whether objects may have been skipped, as Python has moved them or the place was not found again."""

    def read(self, torch: Torch, place: Place | None, limit_ms: float, longest_ms: float) -> None:
        """Read the objects from `place` on (None: all), at least `OBJECTS_IN_TURN` however little time there is.

        No garbage may be collected meanwhile. Each stop has to list a whole generation. Where that takes much of
        `limit_ms`, reading goes on for longer, up to `longest_ms`, so that fewer stops are needed.
        """
        tensors = set(map(id, tensor_classes(torch)))
        began = thread_time()
        place = place or Place(0, 0, 0, _collections())
        while place.generation < _GENERATIONS:
            began_list, first = thread_time(), max(0, place.position - OVERLAP)
            objects = finished(partial(gc.get_objects, generation=place.generation), first, first + LISTED_AT_MOST)
            limit_s = min(max(limit_ms / 1000, READ_FOR_A_LIST * (thread_time() - began_list)), longest_ms / 1000)
            index = _index_after(objects[: place.position - first], place)
            self.is_broken = _collections() != place.collections or index is None
            while index is not None and index < len(objects) and not self.is_broken:
                self._read(torch, objects[index : index + OBJECTS_IN_TURN], tensors)
                index = min(index + OBJECTS_IN_TURN, len(objects))
                is_late = thread_time() - began > limit_s
                if (is_late and index < len(objects)) or (index == len(objects) == LISTED_AT_MOST):
                    self.next = place._replace(position=first + index, last=self.addresses[-1])
                    _tail.clear()
                    _tail[self.addresses[-1]] = frozenset(self.addresses[-TAIL:])
                    return
            if self.is_broken:
                return
            place = Place(place.generation + 1, 0, 0, place.collections)

    def _read(self, torch: Torch, part: list[Any], tensors: set[int]) -> None:
        held_here = held_in_two()
        known = len(self.addresses)
        self.addresses.extend(map(id, part))
        self.counts.extend(map(held_here.__rsub__, map(sys.getrefcount, part)))
        classes = list(map(type, part))
        kinds = array("Q", map(id, classes))
        nodes = {kind for kind, cls in dict(zip(kinds, classes)).items() if is_node(torch, cls)}
        self.types.extend(kinds)
        self.tensors.extend(compress(count(known), map(tensors.__contains__, kinds)))
        self.nodes.extend(compress(count(known), map(nodes.__contains__, kinds)))
        referents = list(map(gc.get_referents, part))
        self.lengths.extend(map(len, referents))
        self.referents.extend(map(id, chain.from_iterable(referents)))


def tensor_classes(torch: Torch) -> list[type]:
    """`torch.Tensor` and all classes derived from it."""
    found: dict[int, type] = {}
    pending: list[type] = [torch.Tensor, torch.nn.Parameter]
    while pending:
        cls = pending.pop()
        if id(cls) not in found:
            found[id(cls)] = cls
            pending += type.__subclasses__(cls)
    return list(found.values())


def _index_after(before: list[Any], place: Place) -> int | None:
    """The index after the newest object that is still known from the end of the last part; None if none is known."""
    if not place.last:
        return 0
    tail = _tail.get(place.last, {place.last})
    numbers = range(len(before) - 1, -1, -1)
    return next((number + 1 for number in numbers if id(before[number]) in tail), None)


def _collections() -> int:
    return int(gc.get_stats()[-1]["collections"])

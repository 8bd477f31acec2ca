"""The references among all of Python's objects, by address, a part in each stop.

Python runs between two stops. That does no harm: objects in a cycle that nobody can reach stay as they are, and what
the viewer makes of all parts is proven in a last stop (`proof.py`).
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
"""So many objects are read before the time is looked at: 3 ms."""
OVERLAP = 4_000
"""The last object is looked for among so many before its place: others that were freed meanwhile have moved it."""
TAIL = 512
"""The addresses of so many objects that were read last are kept: the last may be freed, as the probe's own are."""
LISTED_AT_MOST = 100_000
"""So many objects are held while they are read: more than a stop has time for."""
READ_FOR_A_LIST = 4
"""A part takes so many times as long as its list."""
_GENERATIONS = 3
_tail: dict[int, frozenset[int]] = {}
"""By the address of the last object of a part, the addresses of those at its end; of the newest part alone."""


class Place(NamedTuple):
    """How far the references are read: in Python's list of a generation, what comes later is newer.

    `last` is the address of the object that was read last. `collections` is how often Python had collected all
    generations, which moves objects from list to list: then all has to be read again.
    """

    generation: int
    position: int
    last: int
    collections: int


class Part:
    """What was read in one stop, of each object: where it is, its references counted by Python, what it refers to."""

    def __init__(self) -> None:
        self.addresses, self.types = array("Q"), array("Q")
        """Of each object and of its type."""
        self.counts = array("q")
        self.lengths, self.referents = array("I"), array("Q")
        """How many objects each of them refers to, and the addresses of those."""
        self.tensors, self.nodes = array("I"), array("I")
        """Which of them are tensors, and nodes of graphs, by their numbers in this part."""
        self.next: Place | None = None
        """Where to go on; None at the end."""
        self.is_broken = False
        """Whether objects may have been passed over."""

    def read(self, torch: Torch, place: Place | None, limit_ms: float, longest_ms: float) -> None:
        """Read the next objects, in a stop in which no garbage is collected; some, however little time there is.

        Each stop lists a whole generation. Where that takes most of `limit_ms`, more is read, up to `longest_ms`: so
        fewer stops are needed.
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
    """The classes of tensors, those of the program included."""
    found: dict[int, type] = {}
    pending: list[type] = [torch.Tensor, torch.nn.Parameter]
    while pending:
        cls = pending.pop()
        if id(cls) not in found:
            found[id(cls)] = cls
            pending += type.__subclasses__(cls)
    return list(found.values())


def _index_after(before: list[Any], place: Place) -> int | None:
    """Where the object comes that follows the last one that is still there; None if none is among these."""
    if not place.last:
        return 0
    tail = _tail.get(place.last, {place.last})
    numbers = range(len(before) - 1, -1, -1)
    return next((number + 1 for number in numbers if id(before[number]) in tail), None)


def _collections() -> int:
    return int(gc.get_stats()[-1]["collections"])

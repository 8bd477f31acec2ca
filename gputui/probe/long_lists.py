"""Long lists and tuples of tensors: a look names those elements that no model and no optimizer owns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import compress

from gputui.probe.kinds import TENSOR, TypeClassifier
from gputui.probe.meter import Meter
from gputui.probe.plain import is_one_of, key_text
from gputui.probe.torch_types import AnyObject, Tensor
from gputui.probe.variables import ELEMENTS_AT_ONCE, NamedValue

SHORT = 64
"""Up to so many elements a container has of which every look reads all."""
SEEN_PER_STEP, LONG_PER_STEP = 64, 8
"""So many elements are recognised as tensors, and asked for their owners, in the time of one step."""


class LongLists:
    """Those that a search has come to: they are read once it is known what models and optimizers own.

    Dictionaries may be among them, and are never read.
    """

    def __init__(self, classifier: TypeClassifier) -> None:
        self.holders: list[NamedValue] = []
        self._left: list[NamedValue] = []
        """Those among them that were not taken."""
        self._classifier = classifier

    @property
    def unread(self) -> frozenset[int]:
        """The ids of those for which there was no time."""
        return frozenset(id(named.value) for named in self._left)

    def add(self, named: NamedValue) -> None:
        """Keep a container for later."""
        self.holders.append(named)
        self._left.append(named)

    def leave(self, named: NamedValue, size: int, meter: Meter) -> bool:
        """Keep a list of tensors for later; returns False for anything else."""
        if not SHORT < size <= ELEMENTS_AT_ONCE or not is_one_of(type(named.value), (list, tuple)):
            return False
        if not meter.spend(1 + size // SEEN_PER_STEP):
            return False
        if set(self._classifier.kinds_of(list(named.value))) != {TENSOR}:
            return False
        self.add(named)
        return True

    def take(
        self, to_name: Callable[[list[Tensor]], list[Tensor]], meter: Meter, at_most: int = sys.maxsize
    ) -> Iterator[NamedValue]:
        """Those of the tensors in lists of at most so many elements that `to_name` picks, with their names."""
        left, self._left = self._left, []
        for number, holder in enumerate(left):
            length = len(holder.value) if is_one_of(type(holder.value), (list, tuple)) else 0
            if not length:
                continue
            if length > at_most:
                self._left.append(holder)
                continue
            if not meter.spend(1 + length // LONG_PER_STEP):
                self._left += left[number:]
                return
            elements = list(holder.value)
            are_tensors = map(TENSOR.__eq__, self._classifier.kinds_of(elements))
            tensors = {id(element): number for number, element in compress(enumerate(elements), are_tensors)}
            for tensor in to_name([elements[number] for number in tensors.values()]):
                yield element_of(holder, tensors[id(tensor)], tensor)


def element_of(holder: NamedValue, key: AnyObject, value: AnyObject) -> NamedValue:
    """What a container holds by this key, or at this place, with its name."""
    return NamedValue(value, f"{holder.name}[{key_text(key)}]", holder.where, holder.keeper)

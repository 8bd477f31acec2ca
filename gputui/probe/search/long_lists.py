"""Long lists and tuples of tensors: a look names those elements that no model and no optimizer owns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import compress

from gputui.probe.objects.kinds import TENSOR, TypeClassifier
from gputui.probe.objects.plain import is_one_of
from gputui.probe.objects.torch_types import Tensor
from gputui.probe.pace.meter import Meter
from gputui.probe.search.variables import ELEMENTS_AT_ONCE, NamedValue

SHORT = 64
"""Up to so many elements a container has of which every look reads all."""
SEEN_PER_STEP, LONG_PER_STEP = 64, 8
"""So many elements are recognised as tensors, and asked for their owners, in the time of one step."""


class LongLists:
    """Those that a search has come to: they are read once it is known what models and optimizers own."""

    def __init__(self, classifier: TypeClassifier) -> None:
        self.holders: list[NamedValue] = []
        self._left: list[NamedValue] = []
        """Those among them that were not taken."""
        self._classifier = classifier

    @property
    def unread(self) -> frozenset[int]:
        """The ids of those for which there was no time."""
        return frozenset(id(named.value) for named in self._left)

    def leave(self, named: NamedValue, size: int, meter: Meter) -> bool:
        """Keep a list of tensors for later; returns False for anything else."""
        if not SHORT < size <= ELEMENTS_AT_ONCE or not is_one_of(type(named.value), (list, tuple)):
            return False
        if not meter.spend(1 + size // SEEN_PER_STEP):
            return False
        if set(self._classifier.kinds_of(list(named.value))) != {TENSOR}:
            return False
        self.holders.append(named)
        self._left.append(named)
        return True

    def take(self, to_name: Callable[[list[Tensor]], list[Tensor]], meter: Meter) -> Iterator[NamedValue]:
        """Those of the tensors in the lists that `to_name` picks, with their names."""
        left, self._left = self._left, []
        for number, holder in enumerate(left):
            if not meter.spend(1 + len(holder.value) // LONG_PER_STEP):
                self._left += left[number:]
                return
            elements = list(holder.value)
            are_tensors = map(TENSOR.__eq__, self._classifier.kinds_of(elements))
            tensors = {id(element): number for number, element in compress(enumerate(elements), are_tensors)}
            for tensor in to_name([elements[number] for number in tensors.values()]):
                yield NamedValue(tensor, f"{holder.name}[{tensors[id(tensor)]}]", holder.where, holder.keeper)

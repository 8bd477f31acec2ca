"""Records parameters, gradients and buffers, named after the modules that own them.

In a program of thousands of parameters, one look may not have time for all, so they are recorded in parts, and each
look begins with the first part for which the last look had no time. Tensors that earlier looks found at the same
address by the same name are recorded in loops of C.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import compress, repeat
from operator import is_not
from typing import Callable, Tuple, TypeVar

from gputui.probe.objects.torch_types import Module, Tensor, Torch, tensor_base
from gputui.probe.pace.meter import Meter
from gputui.probe.pace.turns import Turns
from gputui.probe.search.modules import KnownModule, all_registered, registered
from gputui.probe.tensors.cache_names import of_caches
from gputui.probe.tensors.gradients import GradientReader
from gputui.probe.tensors.storages import Ledger
from gputui.protocol.categories import BUFFER, GRADIENT, KV_CACHE, PARAMETER
from gputui.protocol.owners import PART as PART_OF_OWNER
from gputui.protocol.owners import Owner, field, gradient_of

HALF_BYTES = 2
LEARNING_SHARE = 0.5
"""The share of the time for models that goes to learning names of parameters; the rest records those with a name."""
PART = 32
"""How many tensors are recorded between two checks whether there is time left."""
RECALLED_PER_STEP, RECORDED_PER_STEP = 8, 2
"""How many tensors of earlier looks are recognised, and how many others are recorded, in the time of one step."""
Item = TypeVar("Item")
Record = Callable[[], None]
"""Records a part of what models or optimizers own."""
Present = Tuple[KnownModule, Module]
"""A known module with the module itself."""


class Learned:
    """The names of parameters, and of the modules that own them, by the parameters' ids; `version`: see `parts_of`."""

    def __init__(self, version: object) -> None:
        self.version = version
        self.read: list[int] = []
        """The ids of the parameters of the modules read so far, in the modules' order."""
        self.modules_read = 0
        self._last_first = 0
        """The index in `read` of the first parameter of the module that was read last."""
        self.names: dict[int, str] = {}
        self.modules: dict[int, list[str]] = {}
        """The names of the modules that own each parameter: several for a tied weight."""

    def read_on(self, owners: list[Present], parameters: int, meter: Meter) -> None:
        """Go on with the first of these modules that is not read yet; together they have `parameters` parameters."""
        if owners and self.modules_read == len(owners) and len(self.read) < parameters:
            self.modules_read -= 1  # the last module has got more, such as a ParameterList that the program fills
            del self.read[self._last_first :]
        for known, module in owners[self.modules_read :]:
            if not meter.spend():
                return
            self.modules_read += 1
            self._last_first = len(self.read)
            for key, tensor in registered(module, "_parameters"):
                if tensor is not None:
                    self.read.append(id(tensor))
                    self.names.setdefault(id(tensor), known.name_of(key))
                    names = self.modules.setdefault(id(tensor), [])
                    if known.name not in names:
                        names.append(known.name)


class OwnedMemory:
    """What a look keeps for the next one: the names of parameters, and which parts it had no time for."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.learned = Learned(None)
        self.parts_known = 0
        """How many parts of parameters, buffers and optimizer states were recorded since the last new storage there."""


def parted(items: list[Item], at_once: int = PART) -> Iterator[list[Item]]:
    """The items in lists of `at_once`: one list is recorded between two checks whether there is time left."""
    return (items[start : start + at_once] for start in range(0, len(items), at_once))


class ModelStates:
    """Records what modules own in the ledger, and knows the names of parameters, which name optimizer states too."""

    def __init__(
        self, torch: Torch, ledger: Ledger, gradients: GradientReader, meter: Meter, memory: OwnedMemory
    ) -> None:
        self.memory = memory
        self._ledger = ledger
        self._gradients = gradients
        self._meter = meter
        self._element_size = tensor_base(torch).element_size
        self._names: dict[int, str] = {}
        self._modules: dict[int, list[str]] = {}
        self._new: set[int] = set()
        """The ids of the parameters whose storages earlier looks have not found."""
        self._shape_unread: list[Tensor] = []
        self._half_shapes: set[tuple[int, ...]] = set()
        """The shapes of 16-bit parameters, of which an optimizer may keep 32-bit copies, but for those in the list."""

    def parts_of(self, modules: list[KnownModule], version: object) -> tuple[list[Record], list[Record], list[Record]]:
        """Functions that record the new parameters, then all parameters and buffers, then gradients: a part each.

        `version` changes with the names of the modules.
        """
        owners = [(known, module) for known in modules if (module := known.reference()) is not None]
        parameters = self._parameters(owners, version)
        new = [tensor for tensor in parameters if id(tensor) in self._new]
        with_buffers = [(known, module) for known, module in owners if known.has_buffers]
        self._ledger.note_owned(all_registered([module for _, module in with_buffers], "_buffers"))
        return (
            [partial(self._record_parameters, some) for some in parted(new)],
            [
                *(partial(self._record_parameters, some) for some in parted(parameters)),
                *(partial(self._record_buffers, some) for some in parted(with_buffers)),
            ],
            [partial(self._record_gradients, some) for some in parted(parameters)],
        )

    def _parameters(self, owners: list[Present], version: object) -> list[Tensor]:
        """The parameters of these modules whose names are known, each once."""
        owners = [(known, module) for known, module in owners if known.has_parameters]
        tensors = all_registered([module for _, module in owners], "_parameters")
        self._new = set(map(id, self._ledger.note_owned(tensors)))
        idents = list(map(id, tensors))
        learned = self.memory.learned
        if self._ledger.keeper or learned.version != version or idents[: len(learned.read)] != learned.read:
            learned = Learned(version)
        learned.read_on(owners, len(idents), self._meter.part(LEARNING_SHARE))
        if not self._ledger.keeper:
            self.memory.learned = learned
        self._names, self._modules = {**learned.names, **self._names}, {**learned.modules, **self._modules}
        parameters = [tensor for ident, tensor in dict(zip(idents, tensors)).items() if ident in learned.names]
        self._shape_unread += parameters
        return parameters

    def record_owned(self, tensors: list[Tensor], category: str, owners: Sequence[Owner]) -> None:
        """Record tensors that models or optimizers own, as far as the meter allows; known ones are the cheapest."""
        if not tensors or not self._meter.spend(1 + len(tensors) // RECALLED_PER_STEP):
            return
        left = self._ledger.record_again(tensors, category, owners)
        if not left or not self._meter.spend(len(left) // RECORDED_PER_STEP):
            return
        others, own = [tensors[number] for number in left], [owners[number] for number in left]
        are_plain = all(self._ledger.are_plain(others))
        singly = self._ledger.record_plain(others, category, own) if are_plain else range(len(others))
        for number in singly:
            if self._meter.spend():
                self._ledger.record(others[number], category, own[number])

    def _record_parameters(self, parameters: list[Tensor]) -> None:
        self.record_owned(parameters, PARAMETER, [(self._names[id(tensor)],) for tensor in parameters])

    def _record_gradients(self, parameters: list[Tensor]) -> None:
        if not self._meter.spend():
            return
        found = self._gradients.of_leaves(parameters)
        if found is None:
            for tensor in parameters:
                self.record_gradient(tensor, (self._names[id(tensor)],))
            return
        if not found:
            self._meter.leave_out()
        are_there = list(map(is_not, found, repeat(None)))
        owners = [(f"{self._names[id(tensor)]}.grad",) for tensor in compress(parameters, are_there)]
        self.record_owned(list(compress(found, are_there)), GRADIENT, owners)

    def _record_buffers(self, owners: list[Present]) -> None:
        entries = [
            (known.name_of(key), value) for known, module in owners for key, value in registered(module, "_buffers")
        ]
        named = [(name, tensor) for name, tensor in entries if tensor is not None]
        caches = {named[number][0] for number in of_caches([name for name, _ in named])}
        for category in (BUFFER, KV_CACHE):
            own = [(name, tensor) for name, tensor in named if (name in caches) == (category == KV_CACHE)]
            self.record_owned([tensor for _, tensor in own], category, [(name,) for name, _ in own])

    def record_gradient(self, tensor: Tensor, owner: Owner) -> None:
        gradient = self._gradients.gradient(tensor)
        if gradient is not None and self._meter.spend():
            self._ledger.record(gradient, GRADIENT, gradient_of(owner))

    def record_parameter(self, tensor: Tensor, owner: Owner, category: str) -> None:
        self._names[id(tensor)] = f"{owner[0]}{field(owner, PART_OF_OWNER)}"
        self._shape_unread.append(tensor)
        self._ledger.record(tensor, category, owner)

    def is_master(self, tensor: Tensor) -> bool:
        """Whether a tensor that no module owns is the full-precision copy of a half-precision parameter."""
        while self._shape_unread:
            parameter = self._shape_unread.pop()
            if self._element_size(parameter) == HALF_BYTES and (sizes := self._ledger.sizes(parameter)):
                self._half_shapes.add(tuple(sizes))
        return self._element_size(tensor) > HALF_BYTES and tuple(self._ledger.sizes(tensor)) in self._half_shapes

    @property
    def is_named(self) -> Callable[[int], bool]:
        """Says whether the tensor with this id is a parameter."""
        return self._names.__contains__

    def name_of(self, parameter: Tensor) -> str | None:
        return self._names.get(id(parameter))

    def modules_of(self, parameter: Tensor) -> list[str] | None:
        """The names of the modules that own a parameter."""
        return self._modules.get(id(parameter))

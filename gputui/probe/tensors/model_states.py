"""Parameters, gradients, buffers and optimizer states: named after the modules and optimizers that own them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress, repeat
from operator import attrgetter, is_not
from typing import NamedTuple, Tuple

from gputui.probe.objects.plain import type_name
from gputui.probe.objects.torch_types import Module, Tensor, Torch
from gputui.probe.pace.meter import Meter
from gputui.probe.search.modules import KnownModule, all_registered, registered
from gputui.probe.tensors.batches import Batch, Batches
from gputui.probe.tensors.cache_names import is_of_cache
from gputui.probe.tensors.gradients import GradientReader
from gputui.probe.tensors.storages import Ledger
from gputui.probe.tensors.wrapped_tensors import tensor_base

PARAMETER, GRADIENT, BUFFER, OPTIMIZER_STATE = "parameter", "gradient", "buffer", "optimizer_state"
KV_CACHE = "kv_cache"
HALF_BYTES = 2
has_parameters, has_buffers = attrgetter("has_parameters"), attrgetter("has_buffers")
Owner = Tuple[KnownModule, Module]
"""A known module with the module itself."""
PARTS, LEAST_PART = 8, 8
"""Modules are recognised in so many parts, of at least so many: FSDP replaces the parameters of one block at a time."""
PART = 128
"""So many gradients, or the states of so many parameters, are recognised as a whole: a look may not have time for all
of a large program."""
RECALLED_PER_STEP = 8
"""So many tensors of the last look are recognised in the time of one step."""
ALIKE_PER_STEP = 2
"""So many gradients that are like their parameters are recorded in the time of one step."""


class Learned(NamedTuple):
    """What some modules' parameters are, by id: their names, and the names of the modules that own each.

    `half_shapes` are the shapes of 16-bit parameters.
    """

    names: dict[int, str]
    modules: dict[int, list[str]]
    half_shapes: set[tuple[int, ...]]


class ModelStates:
    """Records them in the ledger, and remembers the names of parameters, after which optimizer states are named."""

    def __init__(
        self,
        torch: Torch,
        ledger: Ledger,
        gradients: GradientReader,
        meter: Meter,
        batches: Batches,
    ) -> None:
        self._ledger = ledger
        self._gradients = gradients
        self._meter = meter
        self.batches = batches
        self._element_size = tensor_base(torch).element_size
        self._names: dict[int, str] = {}
        self._modules: dict[int, list[str]] = {}
        """The names of the modules that own a parameter, by its id: several for a tied weight."""
        self._learned: list[Learned] = []
        """What the modules so far say of parameters, by parts."""
        self._are_names_merged = False
        """Whether names and shapes are those of `Batches.merged`, which must not change."""
        self._half_shapes: set[tuple[int, ...]] = set()
        """The shapes of 16-bit parameters, of which an optimizer may keep 32-bit copies."""

    def record_modules(self, modules: list[KnownModule], version: object) -> None:
        """Record what the modules own, as far as the meter allows.

        `version` changes with the names of the modules. What a look has had time for is recognised by the next one.
        """
        parameters: list[Tensor] = []
        for number, part in enumerate(_parts(modules, has_parameters)):
            parameters += self._record_parameters(part, number, version)
        self._know(self._learned)
        self._record_gradients(self._named_once(parameters), version)
        for number, part in enumerate(_parts(modules, has_buffers)):
            self._record_buffers(part, number, version)

    def _record_parameters(self, owners: list[Owner], number: int, version: object) -> list[Tensor]:
        """Record the parameters of these modules; returns them, [] where no time is left."""
        if self._meter.is_over:
            return []
        tensors = all_registered([module for _, module in owners], "_parameters")
        kind = f"parameters {number}"
        batch = self.recall(kind, version, tensors)
        if batch is None:
            self._know(self._learned)  # a weight can be tied to one of a part before
            learned = Learned({}, {}, self._half_shapes)
            for known, module in owners:
                self._read_parameters(known, module, learned)
            learned = learned._replace(half_shapes=set(self._half_shapes))
            self.remember(kind, version, tensors, learned)
        else:
            learned = batch.learned
        self._learned.append(learned)
        return tensors

    def _know(self, parts: list[Learned]) -> None:
        """Know what these parts of the modules say of parameters."""
        merged = self.batches.merged(parts, _merged)
        self._names, self._modules, self._half_shapes = merged
        self._are_names_merged = True

    def _named_once(self, parameters: list[Tensor]) -> list[Tensor]:
        """Those of these parameters that have a name, each once."""
        by_id = dict(zip(map(id, parameters), parameters))
        if all(map(self._names.__contains__, by_id)):
            return list(by_id.values())
        return [tensor for ident, tensor in by_id.items() if ident in self._names]

    def _record_buffers(self, owners: list[Owner], number: int, version: object) -> None:
        if self._meter.is_over:
            return
        kind = f"buffers {number}"
        buffers = all_registered([module for _, module in owners], "_buffers")
        if not buffers or self.recall(kind, version, buffers) is not None:
            return
        for known, module in owners:
            for key, tensor in registered(module, "_buffers"):
                if tensor is not None and self._meter.spend():
                    name = known.name_of(key)
                    self._ledger.record_again(tensor, KV_CACHE if is_of_cache(name) else BUFFER, name)
        self.remember(kind, version, buffers)

    def _record_gradients(self, parameters: list[Tensor], version: object) -> None:
        parts = [(first, parameters[first : first + PART]) for first in range(0, len(parameters), PART)]
        for first, part in self.batches.in_turn("gradients", parts, self._meter):
            if self._meter.spend(len(part) // RECALLED_PER_STEP):
                self._record_gradients_of(part, f"gradients from {first}", version)

    def _record_gradients_of(self, parameters: list[Tensor], kind: str, version: object) -> None:
        found = self._gradients.of_leaves(parameters)
        if found is None:
            for tensor in parameters:
                self.record_gradient(tensor, self._names[id(tensor)])
            return
        if not found:
            self._meter.leave_out()
            return
        are_there = list(map(is_not, found, repeat(None)))
        owners, gradients = list(compress(parameters, are_there)), list(compress(found, are_there))
        version = (version, *map(id, owners)) if len(owners) < len(parameters) else version
        if self.recall(kind, version, gradients, has_own_objects=False) is not None:
            return
        if self._record_like(owners, gradients, kind, version):
            return
        for tensor, own in zip(owners, gradients):
            if not self._meter.spend():
                return
            self._ledger.record_again(own, GRADIENT, f"{self._names[id(tensor)]}.grad")
        self.remember(kind, version, gradients, has_own_objects=False)

    def _record_like(self, owners: list[Tensor], gradients: list[Tensor], kind: str, version: object) -> bool:
        """Record the gradients of these parameters at once; False unless each is like its parameter.

        Where a step has put them elsewhere, one by one would take too long in a large program.
        """
        ledger = self._ledger
        if not self._meter.spend(1 + len(gradients) // ALIKE_PER_STEP):
            return False
        signature, places = self._signature(gradients, has_own_objects=False), ledger.addresses(owners)
        if signature is None or places is None or len({*places}) < len(places):
            return False
        idents, addresses = signature
        known, facts = list(map(ledger.entries.get, places)), ledger.facts(gradients)
        if None in known or len({*addresses}) < len(addresses) or facts is None or facts != ledger.facts(owners):
            return False
        changed = {"category": GRADIENT, "type": type_name(gradients[0]), "saved_by": "", "module": "", "kept_by": ""}
        names = [f"{self._names[id(tensor)]}.grad" for tensor in owners]
        rows = zip(addresses, names, known)
        entries = {at: {**entry, **changed, "address": at, "owner": name} for at, name, entry in rows if entry}
        ledger.add_batch(self.batches.keep(kind, version, idents, addresses, entries))
        return True

    def recall(
        self, kind: str, version: object, tensors: list[Tensor], *, has_own_objects: bool = True
    ) -> Batch | None:
        """Record all of these if they are those of the last look; None if they have to be recorded one by one.

        Gradients are told by their addresses alone: PyTorch may make a new Python object each time one is read.
        """
        if not self._meter.spend(1 + len(tensors) // RECALLED_PER_STEP):
            return None
        signature = self._signature(tensors, has_own_objects=has_own_objects)
        if signature is None:
            return None
        batch = self.batches.unchanged(kind, version, *signature)
        if batch is not None:
            self._ledger.add_batch(batch)
        return batch

    def remember(
        self,
        kind: str,
        version: object,
        tensors: list[Tensor],
        learned: object = None,
        *,
        has_own_objects: bool = True,
    ) -> None:
        signature = None if self._meter.is_over else self._signature(tensors, has_own_objects=has_own_objects)
        if signature is not None:
            self.batches.keep(kind, version, *signature, self._ledger.entries, learned)

    def _signature(self, tensors: list[Tensor], *, has_own_objects: bool) -> tuple[list[int], list[int]] | None:
        """The ids and addresses by which a batch is recognised; None where it must not be taken for a known one."""
        if self._ledger.keeper or not tensors:
            return None
        addresses = self._ledger.addresses(tensors)
        return None if addresses is None else (list(map(id, tensors)) if has_own_objects else [], addresses)

    def _read_parameters(self, known: KnownModule, module: Module, learned: Learned) -> None:
        """Record the parameters of one module that no other module had."""
        if not self._meter.spend():
            return
        for key, tensor in registered(module, "_parameters"):
            if tensor is None or not self._meter.spend():
                continue
            learned.modules.setdefault(id(tensor), []).append(known.name)
            if id(tensor) not in self._names:
                name = learned.names[id(tensor)] = known.name_of(key)
                self.record_parameter(tensor, name, PARAMETER)

    def record_gradient(self, tensor: Tensor, name: str, where: str = "") -> None:
        gradient = self._gradients.gradient(tensor)
        if gradient is not None and self._meter.spend():
            self._ledger.record_again(gradient, GRADIENT, f"{name}.grad ({where})" if where else f"{name}.grad")

    def record_parameter(self, tensor: Tensor, name: str, category: str) -> None:
        if self._are_names_merged:  # which the next look has, too
            self._names, self._half_shapes = self._names.copy(), self._half_shapes.copy()
            self._are_names_merged = False
        self._names[id(tensor)] = name
        entry = self._ledger.record_again(tensor, category, name)
        if entry is not None and self._element_size(tensor) == HALF_BYTES:
            self._half_shapes.add(tuple(entry["shape"]))

    def is_master(self, tensor: Tensor) -> bool:
        """Whether a tensor that no module owns is the full-precision copy of a half-precision parameter."""
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


def _parts(modules: list[KnownModule], has_some: Callable[[KnownModule], bool]) -> list[list[Owner]]:
    """Those of these modules that have some tensors, in parts that are recognised each as a whole."""
    owners = [(known, module) for known in filter(has_some, modules) if (module := known.reference()) is not None]
    size = max(LEAST_PART, -(-len(owners) // PARTS))
    return [owners[first : first + size] for first in range(0, len(owners), size)]


def _merged(parts: list[Learned]) -> Learned:
    """What all these parts say; the first that has a parameter names it."""
    merged = Learned({}, {}, set())
    for names, modules, half_shapes in parts:
        for ident, owners in modules.items():
            merged.modules.setdefault(ident, []).extend(owners)
        for ident, name in names.items():
            merged.names.setdefault(ident, name)
        merged.half_shapes.update(half_shapes)
    return merged

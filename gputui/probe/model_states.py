"""Parameters, gradients, buffers and optimizer states: named after the modules and optimizers that own them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, compress, repeat
from operator import is_
from typing import Any, NamedTuple, Tuple

from gputui.probe import plain
from gputui.probe.batches import Batch, Batches
from gputui.probe.cache_names import is_of_cache
from gputui.probe.gradients import GradientReader
from gputui.probe.keepers import OPTIMIZER
from gputui.probe.meter import Meter
from gputui.probe.modules import KnownModule, all_registered, registered
from gputui.probe.storages import Ledger
from gputui.probe.torch_types import AnyObject, Module, Tensor, Torch
from gputui.probe.variables import NamedValue
from gputui.probe.wrapped_tensors import tensor_base

PARAMETER, GRADIENT, BUFFER, OPTIMIZER_STATE = "parameter", "gradient", "buffer", "optimizer_state"
KV_CACHE = "kv_cache"
HALF_BYTES = 2
Owner = Tuple[KnownModule, Module]
"""A known module with the module itself."""
PARTS, LEAST_PART = 8, 8
"""Modules are recognised in so many parts, of at least so many: FSDP replaces the parameters of one block at a time."""
RECALLED_PER_STEP = 8
"""So many tensors of the last look are recognised in the time of one step."""


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
        *,
        reads_gradients: bool,
    ) -> None:
        self._tensor = torch.Tensor
        self._ledger = ledger
        self._gradients = gradients
        self._meter = meter
        self._batches = batches
        self._reads_gradients = reads_gradients
        """False while another thread is in a backward pass, which replaces gradients without the interpreter's lock."""
        self._element_size = tensor_base(torch).element_size
        self._names: dict[int, str] = {}
        self._orphans: set[int] = set()
        """The ids of parameters that only an optimizer leads to."""
        self._modules: dict[int, list[str]] = {}
        """The names of the modules that own a parameter, by its id: several for a tied weight."""
        self._learned: list[Learned] = []
        """What the modules so far say of parameters, by parts."""
        self._half_shapes: set[tuple[int, ...]] = set()
        """The shapes of 16-bit parameters, of which an optimizer may keep 32-bit copies."""

    def record_modules(self, modules: list[KnownModule], version: object) -> None:
        """Record what the modules own, as far as the meter allows.

        `version` changes with the names of the modules. What a look has had time for is recognised by the next one.
        """
        with_tensors = (known for known in modules if known.has_tensors)
        owners = [(known, module) for known in with_tensors if (module := known.reference()) is not None]
        size = max(LEAST_PART, -(-len(owners) // PARTS))
        parts = [owners[first : first + size] for first in range(0, len(owners), size)]
        parameters: list[Tensor] = []
        for number, part in enumerate(parts):
            parameters += self._record_parameters(part, number, version)
        self._know(self._learned)
        self._record_gradients(self._named_once(parameters), version)
        for number, part in enumerate(parts):
            self._record_buffers(part, number, version)

    def _record_parameters(self, owners: list[Owner], number: int, version: object) -> list[Tensor]:
        """Record the parameters of these modules; returns them."""
        tensors = all_registered([module for _, module in owners], "_parameters")
        kind = f"parameters {number}"
        batch = self._recall(kind, version, tensors)
        if batch is None:
            self._know(self._learned)  # a weight can be tied to one of a part before
            learned = Learned({}, {}, self._half_shapes)
            for known, module in owners:
                self._read_parameters(known, module, learned)
            learned = learned._replace(half_shapes=set(self._half_shapes))
            self._remember(kind, version, tensors, learned)
        else:
            learned = batch.learned
        self._learned.append(learned)
        return tensors

    def _know(self, parts: list[Learned]) -> None:
        """Know what these parts of the modules say of parameters."""
        merged = self._batches.merged(parts, _merged)
        self._names, self._modules = merged.names.copy(), merged.modules
        self._half_shapes = merged.half_shapes.copy()

    def _named_once(self, parameters: list[Tensor]) -> list[Tensor]:
        """Those of these parameters that have a name, each once."""
        by_id = dict(zip(map(id, parameters), parameters))
        if all(map(self._names.__contains__, by_id)):
            return list(by_id.values())
        return [tensor for ident, tensor in by_id.items() if ident in self._names]

    def _record_buffers(self, owners: list[Owner], number: int, version: object) -> None:
        kind = f"buffers {number}"
        buffers = all_registered([module for _, module in owners], "_buffers")
        if not buffers or self._recall(kind, version, buffers) is not None:
            return
        for known, module in owners:
            for key, tensor in registered(module, "_buffers"):
                if tensor is not None and self._meter.spend():
                    name = known.name_of(key)
                    self._ledger.record_again(tensor, KV_CACHE if is_of_cache(name) else BUFFER, name)
        self._remember(kind, version, buffers)

    def _record_gradients(self, parameters: list[Tensor], version: object) -> None:
        if not self._reads_gradients:
            return
        gradients = self._gradients.of_leaves(parameters)
        if gradients is None:
            for tensor in parameters:
                self.record_gradient(tensor, self._names[id(tensor)])
            return
        owners = [(tensor, own) for tensor, own in zip(parameters, gradients) if own is not None]
        gradients = [own for _, own in owners]
        version = (version, *(id(tensor) for tensor, _ in owners)) if len(owners) < len(parameters) else version
        if self._recall("gradients", version, gradients, has_own_objects=False) is not None:
            return
        for tensor, own in owners:
            if not self._meter.spend():
                return
            self._ledger.record_again(own, GRADIENT, f"{self._names[id(tensor)]}.grad")
        self._remember("gradients", version, gradients, has_own_objects=False)

    def _recall(
        self, kind: str, version: object, tensors: list[Tensor], *, has_own_objects: bool = True
    ) -> Batch | None:
        """Record all of these if they are those of the last look; None if they have to be recorded one by one.

        Gradients are told by their addresses alone: PyTorch may make a new Python object each time one is read.
        """
        signature = self._signature(tensors, has_own_objects=has_own_objects)
        if signature is None or not self._meter.spend(1 + len(tensors) // RECALLED_PER_STEP):
            return None
        batch = self._batches.unchanged(kind, version, *signature)
        if batch is not None:
            self._ledger.add_batch(batch)
        return batch

    def _remember(
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
            self._batches.keep(kind, version, *signature, self._ledger.entries, learned)

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
                self._record_parameter(tensor, name, PARAMETER)

    def record_gradient(self, tensor: Tensor, name: str, where: str = "") -> None:
        gradient = self._gradients.gradient(tensor) if self._reads_gradients else None
        if gradient is not None and self._meter.spend():
            self._ledger.record_again(gradient, GRADIENT, f"{name}.grad ({where})" if where else f"{name}.grad")

    def record_optimizer(
        self, name: str, attributes: dict[str, Any], variables: dict[int, NamedValue], version: object
    ) -> None:
        """Record an optimizer by its attributes; `variables` are the tensors that variables hold, by id.

        `version` changes with the names of the modules.
        """
        groups = attributes.get("param_groups")
        for number, group in enumerate(_elements(groups)):
            if issubclass(type(group), dict):
                self._record_group(f"{name}.param_groups[{number}]", plain.variables_of(group), variables)
        state: Any = attributes.get("state")
        if not issubclass(type(state), dict):
            return
        tensors = None if self._orphans else self._plain_tensors(state)
        version = (version, name)
        if tensors and self._recall(f"states of {name}", version, tensors) is not None:
            return
        for parameter, value in list(dict.items(state)):
            if not self._meter.spend():
                return
            with self._kept_by_optimizer() if id(parameter) in self._orphans else nullcontext():
                self._record_state(value, f"{name}.state[{self._names.get(id(parameter), plain.type_name(parameter))}]")
        self._remember(f"states of {name}", version, tensors or [])

    def _plain_tensors(self, state: dict[Any, Any]) -> list[Tensor] | None:
        """The tensors of an optimizer's state, None if it holds anything but tensors and numbers by parameter."""
        values = list(dict.values(state))
        if not values or not all(map(is_, map(type, values), repeat(dict))):
            return None
        entries = list(chain.from_iterable(map(dict.values, values)))
        classes = list(map(type, entries))
        if not plain.are_plain(classes):
            return None
        others = set(classes) - {int, float, bool, type(None)}
        if not all(issubclass(cls, self._tensor) for cls in others):
            return None
        return list(compress(entries, map(others.__contains__, classes)))

    def _kept_by_optimizer(self) -> AbstractContextManager[None]:
        """Says that only an optimizer keeps a parameter, unless there was no time to read all variables."""
        is_sure = self._meter.is_complete and not self._ledger.keeper
        return self._ledger.kept_by(OPTIMIZER) if is_sure else nullcontext()

    def _record_group(self, name: str, group: dict[str, Any], variables: dict[int, NamedValue]) -> None:
        for key, value in group.items():
            if issubclass(type(value), self._tensor):  # such as a learning rate kept on the device
                self._ledger.record_again(value, OPTIMIZER_STATE, f"{name}[{key!r}]")
        parameters = _elements(group.get("params"))
        if all(map(self._names.__contains__, map(id, parameters))):
            return
        for number, tensor in enumerate(parameters):
            if id(tensor) in self._names:
                continue
            if not self._meter.spend():
                return
            variable = variables.get(id(tensor))
            if variable or self._is_master(tensor):
                tensor_name = variable.name if variable else f"{name}.params[{number}]"
                self._record_parameter(tensor, tensor_name, OPTIMIZER_STATE if self._is_master(tensor) else PARAMETER)
                self.record_gradient(tensor, tensor_name)
            else:
                self._orphans.add(id(tensor))
                with self._kept_by_optimizer():
                    self._record_parameter(tensor, f"{name}.params[{number}]", PARAMETER)
                    self.record_gradient(tensor, f"{name}.params[{number}]")

    def _record_parameter(self, tensor: Tensor, name: str, category: str) -> None:
        self._names[id(tensor)] = name
        entry = self._ledger.record_again(tensor, category, name)
        if entry is not None and self._element_size(tensor) == HALF_BYTES:
            self._half_shapes.add(tuple(entry["shape"]))

    def _is_master(self, tensor: Tensor) -> bool:
        """Whether a tensor that no module owns is the full-precision copy of a half-precision parameter."""
        return self._element_size(tensor) > HALF_BYTES and tuple(self._ledger.sizes(tensor)) in self._half_shapes

    def _record_state(self, value: AnyObject, name: str) -> None:
        if issubclass(type(value), self._tensor):
            if self._meter.spend():
                self._ledger.record_again(value, OPTIMIZER_STATE, name)
        elif issubclass(type(value), dict):
            for key, entry in list(dict.items(value)):
                part = plain.name_of(key)
                self._record_state(entry, f"{name}.{part}" if part is not None else name)
        elif plain.is_one_of(type(value), (list, tuple)):
            for number, element in enumerate(value):
                self._record_state(element, f"{name}[{number}]")

    @property
    def is_named(self) -> Callable[[int], bool]:
        """Says whether the tensor with this id is a parameter."""
        return self._names.__contains__

    def name_of(self, parameter: Tensor) -> str | None:
        return self._names.get(id(parameter))

    def modules_of(self, parameter: Tensor) -> list[str] | None:
        """The names of the modules that own a parameter."""
        return self._modules.get(id(parameter))


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


def _elements(values: AnyObject) -> list[Any]:
    """The elements of a list or tuple, also of a subclass that says otherwise; [] for anything else."""
    base = next((base for base in (list, tuple) if issubclass(type(values), base)), None)
    return [] if base is None else list(base.__getitem__(values, slice(None)))

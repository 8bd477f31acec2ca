"""Optimizer states, named after the parameters they are of, and parameters that only an optimizer or variables have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, compress, repeat
from operator import is_, itemgetter
from typing import Any

from gputui.probe.objects import plain
from gputui.probe.objects.torch_types import AnyObject, Tensor, Torch
from gputui.probe.pace.meter import Meter
from gputui.probe.search.keepers import OPTIMIZER
from gputui.probe.search.variables import NamedValue
from gputui.probe.tensors.model_states import OPTIMIZER_STATE, PARAMETER, PART, ModelStates
from gputui.probe.tensors.storages import Ledger

READ_PER_STEP = 8
"""The states of so many parameters are read in the time of one step."""


class OptimizerStates:
    """Records them in the ledger, after the parameters of modules."""

    def __init__(self, torch: Torch, ledger: Ledger, model_states: ModelStates, meter: Meter) -> None:
        self._tensor = torch.Tensor
        self._ledger = ledger
        self._model_states = model_states
        self._batches = model_states.batches
        self._meter = meter
        self._orphans: set[int] = set()
        """The ids of parameters that only an optimizer leads to."""

    def record(
        self, name: str, attributes: dict[str, Any], variables: Callable[[], dict[int, NamedValue]], version: object
    ) -> None:
        """Record an optimizer by its attributes; `variables` says which tensors variables hold, by id.

        `version` changes with the names of the modules.
        """
        groups = attributes.get("param_groups")
        for number, group in enumerate(_elements(groups)):
            if issubclass(type(group), dict):
                self._record_group(f"{name}.param_groups[{number}]", plain.variables_of(group), variables)
        for kind, part in self._batches.in_turn(f"states of {name}", list(_parts(name, attributes)), self._meter):
            if self._meter.spend(len(part) // READ_PER_STEP):
                self._record_part(name, kind, part, (version, name))

    def _record_part(self, name: str, kind: str, part: list[Any], version: object) -> None:
        is_whole = not self._batches.goes_on(kind)
        tensors = self._plain_tensors(part) if is_whole and not self._orphans else None
        if tensors and self._model_states.recall(kind, version, tensors) is not None:
            return
        for parameter, value in self._batches.in_turn(kind, part, self._meter, is_round=False):
            with self._kept_by_optimizer() if id(parameter) in self._orphans else nullcontext():
                parameter_name = self._model_states.name_of(parameter) or plain.type_name(parameter)
                self._record_state(value, f"{name}.state[{parameter_name}]")
        self._model_states.remember(kind, version, tensors or [])

    def _plain_tensors(self, part: list[Any]) -> list[Tensor] | None:
        """The tensors of an optimizer's states, None if they hold anything but tensors and numbers by parameter."""
        values = list(map(itemgetter(1), part))
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

    def _record_group(self, name: str, group: dict[str, Any], variables: Callable[[], dict[int, NamedValue]]) -> None:
        for key, value in group.items():
            if issubclass(type(value), self._tensor):  # such as a learning rate kept on the device
                self._ledger.record_again(value, OPTIMIZER_STATE, f"{name}[{key!r}]")
        parameters = _elements(group.get("params"))
        is_named = self._model_states.is_named
        if all(map(is_named, map(id, parameters))):
            return
        by_id = variables()
        for number, tensor in enumerate(parameters):
            if is_named(id(tensor)):
                continue
            if not self._meter.spend():
                return
            variable = by_id.get(id(tensor))
            if variable or self._model_states.is_master(tensor):
                category = OPTIMIZER_STATE if self._model_states.is_master(tensor) else PARAMETER
                self._record_parameter(tensor, variable.name if variable else f"{name}.params[{number}]", category)
            else:
                self._orphans.add(id(tensor))
                with self._kept_by_optimizer():
                    self._record_parameter(tensor, f"{name}.params[{number}]", PARAMETER)

    def _record_parameter(self, tensor: Tensor, name: str, category: str) -> None:
        self._model_states.record_parameter(tensor, name, category)
        self._model_states.record_gradient(tensor, name)

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


def _parts(name: str, attributes: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """The states of an optimizer with their parameters, in parts that are recognised each as a whole, with its kind."""
    state: Any = attributes.get("state")
    items = list(dict.items(state)) if issubclass(type(state), dict) else []
    for first in range(0, len(items), PART):
        yield f"states of {name} from {first}", items[first : first + PART]


def _elements(values: AnyObject) -> list[Any]:
    """The elements of a list or tuple, also of a subclass that says otherwise; [] for anything else."""
    base = next((base for base in (list, tuple) if issubclass(type(values), base)), None)
    return [] if base is None else list(base.__getitem__(values, slice(None)))

"""Records optimizer states, named after their parameters, and the parameters in optimizers that no module owns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from gputui.probe.objects import plain
from gputui.probe.objects.torch_types import AnyObject, Tensor, Torch
from gputui.probe.pace.meter import Meter
from gputui.probe.search.keepers import OPTIMIZER
from gputui.probe.search.variables import NamedValue
from gputui.probe.tensors.model_states import ModelStates, Record, parted
from gputui.probe.tensors.storages import Ledger
from gputui.protocol.categories import OPTIMIZER_STATE, PARAMETER
from gputui.protocol.owners import PARAM_GROUP, STATE, Owner

STATES_AT_ONCE = 8
"""The states of how many parameters, with two or three tensors each, are one part."""
READ_PER_STEP = 8
"""The states of how many parameters are read in the time of one step."""


class OptimizerStates:
    """Records optimizer states in the ledger; the parameters of modules must have been named by then."""

    def __init__(self, torch: Torch, ledger: Ledger, model_states: ModelStates, meter: Meter) -> None:
        self._tensor = torch.Tensor
        self._ledger = ledger
        self._model_states = model_states
        self._meter = meter
        self._orphans: set[int] = set()
        """The ids of parameters that neither a module nor a variable leads to, but an optimizer."""

    def parts_of(
        self, name: str, attributes: dict[str, Any], variables: Callable[[], dict[int, NamedValue]]
    ) -> list[Record]:
        """Functions that record a part of an optimizer's states each; `variables` returns the variables' tensors by id.

        The tensors in its groups are recorded at once, as states are named after the parameters among them.
        """
        groups, state = attributes.get("param_groups"), attributes.get("state")
        for number, group in enumerate(_elements(groups)):
            if issubclass(type(group), dict):
                self._record_group(name, f".param_groups[{number}]", plain.variables_of(group), variables)
        items = list(dict.items(state)) if issubclass(type(state), dict) else []  # type: ignore[arg-type]
        return [partial(self._record_states, name, some) for some in parted(items, STATES_AT_ONCE)]

    def _record_states(self, name: str, part: list[tuple[Any, Any]]) -> None:
        if not self._meter.spend(len(part) // READ_PER_STEP):
            return
        found: dict[bool, list[tuple[Owner, Tensor]]] = {False: [], True: []}
        for parameter, value in part:
            parameter_name = self._model_states.name_of(parameter) or plain.type_name(parameter)
            found[id(parameter) in self._orphans] += (
                ((name, "", STATE, parameter_name, slot), state) for slot, state in self._states_in(value, "")
            )
        for is_orphan, states in found.items():
            with self._kept_by_optimizer() if is_orphan else nullcontext():
                tensors, owners = [tensor for _, tensor in states], [owner for owner, _ in states]
                self._model_states.record_owned(tensors, OPTIMIZER_STATE, owners)

    def _kept_by_optimizer(self) -> AbstractContextManager[None]:
        """Mark what is recorded as kept by the optimizer alone, unless there was no time to read all variables."""
        is_sure = self._meter.is_complete and not self._ledger.keeper
        return self._ledger.kept_by(OPTIMIZER) if is_sure else nullcontext()

    def _record_group(
        self, name: str, place: str, group: dict[str, Any], variables: Callable[[], dict[int, NamedValue]]
    ) -> None:
        for key, value in group.items():
            if issubclass(type(value), self._tensor):  # such as a learning rate kept on the device
                self._ledger.record(value, OPTIMIZER_STATE, _in_group(name, f"{place}[{key!r}]"))
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
            variable, owner = by_id.get(id(tensor)), _in_group(name, f"{place}.params[{number}]")
            if variable or self._model_states.is_master(tensor):
                category = OPTIMIZER_STATE if self._model_states.is_master(tensor) else PARAMETER
                self._record_parameter(tensor, (variable.name,) if variable else owner, category)
            else:
                self._orphans.add(id(tensor))
                with self._kept_by_optimizer():
                    self._record_parameter(tensor, owner, PARAMETER)

    def _record_parameter(self, tensor: Tensor, owner: Owner, category: str) -> None:
        self._model_states.record_parameter(tensor, owner, category)
        self._model_states.record_gradient(tensor, owner)

    def _states_in(self, value: AnyObject, name: str) -> Iterator[tuple[str, Tensor]]:
        """The tensors in the states of one parameter, each with the end of its name: ".exp_avg"."""
        if issubclass(type(value), self._tensor):
            yield name, value
        elif issubclass(type(value), dict):
            for key, entry in list(dict.items(value)):
                part = plain.name_of(key)
                yield from self._states_in(entry, f"{name}.{part}" if part is not None else name)
        elif plain.is_one_of(type(value), (list, tuple)):
            for number, element in enumerate(value):
                yield from self._states_in(element, f"{name}[{number}]")


def _in_group(optimizer: str, part: str) -> Owner:
    """The owner of a tensor in a parameter group; `part` is such as ".param_groups[0]['lr']"."""
    return (optimizer, "", PARAM_GROUP, "", part)


def _elements(values: AnyObject) -> list[Any]:
    """The elements of a list or tuple, past what a subclass overrides; [] for anything else."""
    base = next((base for base in (list, tuple) if issubclass(type(values), base)), None)
    return [] if base is None else list(base.__getitem__(values, slice(None)))

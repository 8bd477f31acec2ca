"""Parameters, gradients, buffers and optimizer states: what modules and optimizers own, by the names they give."""

from __future__ import annotations

from typing import Any

from gputui.probe.gradients import GradientReader
from gputui.probe.modules import NamedModule, own
from gputui.probe.storages import Ledger, tensor_base
from gputui.probe.torch_types import AnyObject, Tensor, Torch
from gputui.probe.variables import NamedValue

PARAMETER, GRADIENT, BUFFER, OPTIMIZER_STATE = "parameter", "gradient", "buffer", "optimizer_state"
HALF_BYTES = 2


class ModelStates:
    """Records what is owned, and remembers the names of parameters, by which optimizer states are called."""

    def __init__(self, torch: Torch, ledger: Ledger, gradients: GradientReader) -> None:
        self._tensor = torch.Tensor
        self._ledger = ledger
        self._gradients = gradients
        self._element_size = tensor_base(torch).element_size
        self._shape = tensor_base(torch).shape.__get__
        self._names: dict[int, str] = {}
        self._half_shapes: set[tuple[int, ...]] = set()
        """The shapes of parameters in 16 bits, of which an optimizer may keep copies in 32."""

    def record_modules(self, modules: list[NamedModule]) -> None:
        parameters = []
        for module, name in modules:
            for key, tensor in own(module, "_parameters"):
                if tensor is not None and id(tensor) not in self._names:
                    self._record_parameter(tensor, f"{name}.{key}", PARAMETER)
                    parameters.append(tensor)
        for tensor in parameters:
            self.record_gradient(tensor, self._names[id(tensor)])
        for module, name in modules:
            for key, tensor in own(module, "_buffers"):
                if tensor is not None:
                    self._ledger.record(tensor, BUFFER, f"{name}.{key}")

    def record_gradient(self, tensor: Tensor, name: str, where: str = "") -> None:
        gradient = self._gradients.gradient(tensor)
        if gradient is not None:
            self._ledger.record(gradient, GRADIENT, f"{name}.grad ({where})" if where else f"{name}.grad")

    def record_optimizer(self, name: str, held: dict[str, Any], variables: dict[int, NamedValue]) -> None:
        """`held` are the optimizer's attributes, `variables` the tensors that variables hold, by id."""
        groups = held.get("param_groups")
        for number, group in enumerate(list(groups) if isinstance(groups, list) else []):
            self._record_group(f"{name}.param_groups[{number}]", group, variables)
        state = held.get("state")
        for parameter, value in list(dict.items(state)) if isinstance(state, dict) else []:
            self._record_state(value, f"{name}.state[{self._names.get(id(parameter), type(parameter).__name__)}]")

    def _record_group(self, name: str, group: dict[str, Any], variables: dict[int, NamedValue]) -> None:
        for key, value in list(dict.items(group)):
            if issubclass(type(value), self._tensor):  # a learning rate or a step kept on the device
                self._ledger.record(value, OPTIMIZER_STATE, f"{name}[{key!r}]")
        for number, tensor in enumerate(list(group.get("params", ()))):
            if id(tensor) in self._names:
                continue
            variable = variables.get(id(tensor))
            named = variable.name if variable else f"{name}.params[{number}]"
            self._record_parameter(tensor, named, OPTIMIZER_STATE if self._is_master(tensor) else PARAMETER)
            self.record_gradient(tensor, named)

    def _record_parameter(self, tensor: Tensor, name: str, category: str) -> None:
        self._names[id(tensor)] = name
        entry = self._ledger.record(tensor, category, name)
        if entry is not None and self._element_size(tensor) == HALF_BYTES:
            self._half_shapes.add(tuple(entry["shape"]))

    def _is_master(self, tensor: Tensor) -> bool:
        """Whether a tensor that no module owns is the copy in full precision of a parameter in half of it."""
        return self._element_size(tensor) > HALF_BYTES and tuple(self._shape(tensor)) in self._half_shapes

    def _record_state(self, value: AnyObject, name: str) -> None:
        if issubclass(type(value), self._tensor):
            self._ledger.record(value, OPTIMIZER_STATE, name)
        elif isinstance(value, dict):
            for key, held in list(dict.items(value)):
                self._record_state(held, f"{name}.{key}" if type(key) is str else name)
        elif type(value) in (list, tuple):
            for number, held in enumerate(value):
                self._record_state(held, f"{name}[{number}]")

    def name_of(self, parameter: Tensor) -> str | None:
        return self._names.get(id(parameter))

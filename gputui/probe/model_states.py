"""Parameters, gradients, buffers and optimizer states: named after the modules and optimizers that own them."""

from __future__ import annotations

from typing import Any

from gputui.probe.gradients import GradientReader
from gputui.probe.modules import NamedModule, registered
from gputui.probe.storages import Ledger, tensor_base
from gputui.probe.torch_types import AnyObject, Tensor, Torch
from gputui.probe.variables import NamedValue

PARAMETER, GRADIENT, BUFFER, OPTIMIZER_STATE = "parameter", "gradient", "buffer", "optimizer_state"
HALF_BYTES = 2


class ModelStates:
    """Records them in the ledger, and remembers the names of parameters, after which optimizer states are named."""

    def __init__(self, torch: Torch, ledger: Ledger, gradients: GradientReader) -> None:
        self._tensor = torch.Tensor
        self._ledger = ledger
        self._gradients = gradients
        self._element_size = tensor_base(torch).element_size
        self._names: dict[int, str] = {}
        self._half_shapes: set[tuple[int, ...]] = set()
        """The shapes of 16-bit parameters, of which an optimizer may keep 32-bit copies."""

    def record_modules(self, modules: list[NamedModule]) -> None:
        parameters = []
        for module, name in modules:
            for key, tensor in registered(module, "_parameters"):
                if tensor is not None and id(tensor) not in self._names:
                    self._record_parameter(tensor, f"{name}.{key}", PARAMETER)
                    parameters.append(tensor)
        for tensor in parameters:
            self.record_gradient(tensor, self._names[id(tensor)])
        for module, name in modules:
            for key, tensor in registered(module, "_buffers"):
                if tensor is not None:
                    self._ledger.record(tensor, BUFFER, f"{name}.{key}")

    def record_gradient(self, tensor: Tensor, name: str, where: str = "") -> None:
        gradient = self._gradients.gradient(tensor)
        if gradient is not None:
            self._ledger.record(gradient, GRADIENT, f"{name}.grad ({where})" if where else f"{name}.grad")

    def record_optimizer(self, name: str, attributes: dict[str, Any], variables: dict[int, NamedValue]) -> None:
        """Record an optimizer by its attributes; `variables` are the tensors that variables hold, by id."""
        groups = attributes.get("param_groups")
        for number, group in enumerate(list(groups) if isinstance(groups, list) else []):
            self._record_group(f"{name}.param_groups[{number}]", group, variables)
        state = attributes.get("state")
        for parameter, value in list(dict.items(state)) if isinstance(state, dict) else []:
            self._record_state(value, f"{name}.state[{self._names.get(id(parameter), type(parameter).__name__)}]")

    def _record_group(self, name: str, group: dict[str, Any], variables: dict[int, NamedValue]) -> None:
        for key, value in list(dict.items(group)):
            if issubclass(type(value), self._tensor):  # such as a learning rate kept on the device
                self._ledger.record(value, OPTIMIZER_STATE, f"{name}[{key!r}]")
        for number, tensor in enumerate(list(group.get("params", ()))):
            if id(tensor) in self._names:
                continue
            variable = variables.get(id(tensor))
            tensor_name = variable.name if variable else f"{name}.params[{number}]"
            self._record_parameter(tensor, tensor_name, OPTIMIZER_STATE if self._is_master(tensor) else PARAMETER)
            self.record_gradient(tensor, tensor_name)

    def _record_parameter(self, tensor: Tensor, name: str, category: str) -> None:
        self._names[id(tensor)] = name
        entry = self._ledger.record(tensor, category, name)
        if entry is not None and self._element_size(tensor) == HALF_BYTES:
            self._half_shapes.add(tuple(entry["shape"]))

    def _is_master(self, tensor: Tensor) -> bool:
        """Whether a tensor that no module owns is the full-precision copy of a half-precision parameter."""
        return self._element_size(tensor) > HALF_BYTES and tuple(self._ledger.sizes(tensor)) in self._half_shapes

    def _record_state(self, value: AnyObject, name: str) -> None:
        if issubclass(type(value), self._tensor):
            self._ledger.record(value, OPTIMIZER_STATE, name)
        elif isinstance(value, dict):
            for key, entry in list(dict.items(value)):
                self._record_state(entry, f"{name}.{key}" if type(key) is str else name)
        elif type(value) in (list, tuple):
            for number, element in enumerate(value):
                self._record_state(element, f"{name}[{number}]")

    def name_of(self, parameter: Tensor) -> str | None:
        return self._names.get(id(parameter))

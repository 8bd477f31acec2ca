"""What the user's function may return, and the training steps that are made of it."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, NamedTuple

import torch
from torch.utils._pytree import tree_map

from .host import take_place
from .requests import Requests
from .tensors import DEVICE, DeviceTensor

FORMS = """model, optimizer, batch
model, optimizer, batch, loss_function
model, batch                                 (no optimizer: a forward pass under no_grad)
step                                         (a function without arguments that takes one step)"""


class Training(NamedTuple):
    """What the function returned: either `step`, a function that takes a step, or the other fields."""

    model: Any = None
    optimizer: Any = None
    batch: Any = None
    loss_function: Callable[..., Any] | None = None
    step: Callable[[], Any] | None = None


class WrongFormError(Exception):
    """The function returned something in none of the `FORMS`."""


def training_of(returned: Any) -> Training:
    """The training in the function's result. Raises WrongFormError."""
    if not isinstance(returned, (tuple, list)):
        if callable(returned) and not isinstance(returned, torch.nn.Module):
            return Training(step=returned)
        raise WrongFormError(type(returned).__name__)
    parts: list[Any] = list(returned)
    if not 2 <= len(parts) <= 4 or not callable(parts[0]):
        raise WrongFormError(f"{len(parts)} values")
    model = parts.pop(0)
    has_optimizer = len(parts) > 1 and (parts[0] is None or hasattr(parts[0], "step"))
    optimizer = parts.pop(0) if has_optimizer else None
    batch = parts.pop(0)
    if len(parts) > 1:
        raise WrongFormError(f"{len(returned)} values, the second without a method step()")
    return Training(model, optimizer, batch, parts[0] if parts else None)


def on_device(batch: Any) -> Any:
    """The batch with its tensors moved to the GPU."""
    return tree_map(lambda leaf: leaf.to(DEVICE) if isinstance(leaf, torch.Tensor) else leaf, dict_of(batch))


def dict_of(batch: Any) -> Any:
    """A mapping such as transformers' BatchEncoding as a dictionary, anything else as it is."""
    is_mapping = not isinstance(batch, dict) and hasattr(batch, "keys") and hasattr(batch, "__getitem__")
    return {key: batch[key] for key in batch} if is_mapping else batch


def move(model: Any) -> None:
    """Move the model to the GPU as `Module.to` does: parameters stay the same objects, which an optimizer may hold."""
    for module in model.modules() if isinstance(model, torch.nn.Module) else ():
        for parameter in module._parameters.values():
            if parameter is not None and not _is_there(parameter):
                take_place(parameter, torch.empty_like(parameter, device=DEVICE))
        for name, buffer in list(module._buffers.items()):
            if buffer is not None and not _is_there(buffer):
                module._buffers[name] = torch.empty_like(buffer, device=DEVICE)


def _is_there(tensor: Any) -> bool:
    """Whether a tensor, or this rank's part of it, is on the GPU."""
    return isinstance(getattr(tensor, "_local_tensor", tensor), DeviceTensor)


def output_of(training: Training, batch: Any) -> Any:
    """The output of a forward pass."""
    has_target = training.loss_function is not None and isinstance(batch, (tuple, list)) and len(batch) == 2
    if isinstance(batch, dict):
        return training.model(**batch)
    if has_target:
        return output_of(training._replace(loss_function=None), batch[0])
    return training.model(*batch) if isinstance(batch, (tuple, list)) else training.model(batch)


def loss_of(training: Training, output: Any, batch: Any) -> Any:
    """The loss: by the loss function, or the model's own, or else the sum of the model's first output."""
    if training.loss_function is not None:
        is_pair = isinstance(batch, (tuple, list)) and len(batch) == 2
        return training.loss_function(output, batch[1] if is_pair else batch)
    own = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    if isinstance(own, torch.Tensor):
        return own
    while not isinstance(output, torch.Tensor):
        output = next(iter(output.values() if isinstance(output, dict) else output))
    return output if output.dim() == 0 else output.float().sum()


def take_step(training: Training, batch: Any, requests: Requests) -> None:
    """One step, as training loops take it."""
    if training.step is not None:
        requests.mark("step", "other")
        training.step()
        return
    learns = training.optimizer is not None
    with contextlib.nullcontext() if learns else torch.no_grad():
        requests.mark("forward", "activation")
        output = output_of(training, batch)
        if not learns and training.loss_function is None:
            return
        loss = loss_of(training, output, batch)
        del output
    if not learns:
        return
    requests.mark("backward", "activation")
    loss.backward()
    requests.mark("optimizer", "other")
    name_gradients(training.model, requests)
    training.optimizer.step()
    name_states(training.optimizer, training.model, requests)
    training.optimizer.zero_grad()


@contextlib.contextmanager
def modules_followed(model: Any, requests: Requests) -> Iterator[None]:
    """Let each request say in which module's forward pass it is made, in the body of the `with`."""
    paths = {id(module): path for path, module in model.named_modules()} if hasattr(model, "named_modules") else {}
    entered: list[str] = []

    def enter(module: Any, _inputs: Any) -> None:
        entered.append(requests.current_module)
        requests.current_module = paths.get(id(module), requests.current_module)

    def leave(_module: Any, _inputs: Any, _output: Any) -> None:
        requests.current_module = entered.pop()

    hooks = torch.nn.modules.module
    after = hooks.register_module_forward_hook(leave, always_call=True)  # a checkpoint ends its second pass early
    handles = [hooks.register_module_forward_pre_hook(enter), after]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def name_gradients(model: Any, requests: Requests) -> None:
    """Name the gradients, with the module of their parameter."""
    for path, parameter in model.named_parameters():
        requests.name(parameter.grad, "gradient", path.rpartition(".")[0])


def name_states(optimizer: Any, model: Any, requests: Requests) -> None:
    """Name the optimizer's states, with the module of their parameter."""
    modules = {parameter: path.rpartition(".")[0] for path, parameter in model.named_parameters()}
    for parameter, values in (getattr(optimizer, "state", None) or {}).items():
        for value in values.values() if isinstance(values, dict) else ():
            requests.name(value, "optimizer_state", modules.get(parameter))

"""Parameters that a program makes in host memory: they have no data there, and stay the same objects when moved."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

import torch

from .tensors import HOST, META, DeviceTensor

_data: Any = torch.Tensor.data


def take_place(tensor: Any, made: Any) -> None:
    """Turn the object `tensor` into the tensor `made`: so an optimizer that holds a parameter holds the moved one."""
    made = made.detach().requires_grad_(tensor.requires_grad)
    kind = torch.nn.Parameter if type(made) is torch.Tensor else type(made)
    tensor.__class__, made.__class__ = kind, type(tensor)
    torch._C._swap_tensor_impl(tensor, made)
    tensor.__dict__.pop("place", None)
    if isinstance(tensor, DeviceTensor):
        tensor._is_param = True
        if made.__dict__.get("place") is not None:
            tensor.place = made.place


def _set_data(tensor: Any, value: Any) -> None:
    """`tensor.data = value`, also where only one of the two has data, or they are in different places."""
    if getattr(tensor, "place", None) is getattr(value, "place", None):
        _data.__set__(tensor, value)
    else:
        take_place(tensor, value)


@contextmanager
def parameters_without_data() -> Iterator[None]:
    """Let modules keep their parameters in host memory as tensors without data, in the body of the `with`."""
    module = torch.nn.Module
    register = module.register_parameter

    def register_parameter(self: Any, name: str, param: Any) -> None:
        register(self, name, param)
        if type(param) is torch.nn.Parameter and param.device.type == "cpu" and param.numel() and param.is_leaf:
            like = torch.empty_strided(param.shape, param.stride(), dtype=param.dtype, device=META)
            take_place(param, DeviceTensor(like, HOST))

    data = property(_data.__get__, _set_data)
    module.register_parameter = register_parameter  # type: ignore[method-assign]
    torch.nn.Parameter.data = DeviceTensor.data = data  # type: ignore[assignment]
    try:
        yield
    finally:
        module.register_parameter = register  # type: ignore[method-assign]
        del torch.nn.Parameter.data, DeviceTensor.data

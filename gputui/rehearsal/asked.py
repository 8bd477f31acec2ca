"""Which device a program asks for by name."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .tensors import DEVICE, here


class DeviceAsked(TorchFunctionMode):
    """Replaces "cuda" by the GPU with its index, as the driver would, and notes where a program itself means "meta"."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        kinds = [_kind_asked(value) for value in (kwargs.get("device"), *args)]
        if func is torch.Tensor.cuda:
            return args[0].to(DEVICE)
        if kinds[0] == "cuda":
            kwargs = {**kwargs, "device": DEVICE}
        if func is torch.Tensor.to and kinds[2:3] == ["cuda"]:
            args = (args[0], DEVICE, *args[2:])
        if "meta" not in kinds:
            return func(*args, **kwargs)
        before, here.is_meta_meant = here.is_meta_meant, True
        try:
            return func(*args, **kwargs)
        finally:
            here.is_meta_meant = before


def _kind_asked(value: Any) -> str | None:
    """The text of an argument that is a text or a device: "cuda", "cuda:0", "meta"; None for any other."""
    return value if isinstance(value, str) else str(value) if isinstance(value, torch.device) else None

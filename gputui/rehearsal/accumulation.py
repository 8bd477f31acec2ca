"""The sum of gradients in a backward pass: PyTorch adds in place where nothing else holds the first gradient."""

from __future__ import annotations

import sys
from typing import Any

import torch

from .tensors import DEVICE, SPECIAL, DeviceMode, DeviceTensor, run_without_data

aten = torch.ops.aten


class Accumulation:
    """Adds gradients without data in place, too; PyTorch does not, as their class is a subclass of Tensor.

    Whether something else holds a tensor shows in three reference counts: of the tensor, of its storage and of its
    Python object. The counts without another holder depend on PyTorch's version: a small backward pass tells them.
    """

    def __init__(self) -> None:
        self._alone: tuple[int, int, int] | None = None
        SPECIAL[aten.add.Tensor] = self._add
        with DeviceMode(lambda _: None, lambda _: None, lambda *_: None):
            one = torch.ones(1, device=DEVICE, requires_grad=True)
            (one.sin() + one.cos()).backward()

    def _add(self, mode: DeviceMode, first: Any, second: Any, **options: Any) -> Any:
        if options or torch.is_grad_enabled() or torch._C._current_graph_task_id() == -1:
            return NotImplemented
        if not all(isinstance(one, DeviceTensor) for one in (first, second)):
            return NotImplemented
        storage = first.untyped_storage()._cdata
        counts = first._use_count(), torch._C._storage_Use_Count(storage), sys.getrefcount(first)
        if self._alone is None:
            self._alone = counts
        alike = (first.shape, first.dtype) == (second.shape, second.dtype) and first.is_contiguous()
        if counts != self._alone or not alike:
            return NotImplemented
        return mode.wrapped(run_without_data(aten.alias.default, (first,), {}))

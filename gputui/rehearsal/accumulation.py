"""Gradients that meet in a backward pass: PyTorch adds them in place where it alone holds the first."""

from __future__ import annotations

import sys
from typing import Any

import torch

from .tensors import DEVICE, SPECIAL, DeviceMode, DeviceTensor, run_without_data

aten = torch.ops.aten


class Accumulation:
    """Does so for tensors without data, which PyTorch takes for a class of their own, and adds into a new tensor.

    Whether somebody else holds a tensor is told from how often it, its storage and its object are referred to. What
    these counts are where nobody does is read off a small backward pass, as it depends on the version.
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

"""References to the storages of tensors that keep none of them alive.

A weak reference of Python's would be noticed: `torch.utils.swap_tensors`, by which modules exchange their parameters,
refuses a tensor that has one. These are PyTorch's own, as `torch.multiprocessing` uses them. A storage that is gone
leaves some bytes behind, until the object that has the reference is gone, too.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from operator import not_

from gputui.probe.guards.boundary import MAIN_THREAD
from gputui.probe.objects.torch_types import AnyObject, Tensor, tensor_base


class WeakStorages:
    """The storages of some tensors on a device, in the order in which they were added."""

    def __init__(self) -> None:
        self._references: list[int] = []

    def __len__(self) -> int:
        return len(self._references)

    def add(self, tensors: list[Tensor]) -> None:
        """Refer to the storages of these tensors as well; each must have one of its own."""
        storages = map(tensor_base(sys.modules["torch"]).untyped_storage, tensors)
        self._references += map(_storage_class()._weak_ref, storages)

    def take(self, other: WeakStorages) -> None:
        """Take over the references of another, which has none then."""
        self._references += other._references
        other._references = []

    def are_alive(self) -> Iterator[bool]:
        """Whether each of the storages is still there."""
        return map(not_, map(_storage_class()._expired, self._references))

    def __del__(self) -> None:
        MAIN_THREAD.enter(self._free)

    def _free(self) -> None:
        if "torch" in sys.modules:  # not when the interpreter ends
            deque(map(_storage_class()._free_weak_ref, self._references), maxlen=0)


def _storage_class() -> AnyObject:
    return sys.modules["torch"]._C.StorageBase

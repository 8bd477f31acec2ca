"""Names for the program's objects in annotations, and the base of tensors: PyTorch is not imported here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Python 3.10 and newer have it
    from typing import TypeAlias

Torch: TypeAlias = Any
"""The `torch` module, of whatever version the program has."""
Tensor: TypeAlias = Any
Module: TypeAlias = Any
Node: TypeAlias = Any
"""A node of the autograd graph."""
AnyObject: TypeAlias = Any
"""Any object of the program."""


def tensor_base(torch: Torch) -> AnyObject:
    """PyTorch's C base class of tensors, which was named `_TensorBase` before 2.2."""
    return getattr(torch._C, "TensorBase", None) or torch._C._TensorBase

"""Names for the program's objects in annotations: PyTorch is not imported here, so its types are only names."""

from typing import Any, TypeAlias

Torch: TypeAlias = Any
"""The `torch` module, of whatever version the program has."""
Tensor: TypeAlias = Any
Module: TypeAlias = Any
Node: TypeAlias = Any
"""A node of the autograd graph."""
AnyObject: TypeAlias = Any
"""Any object of the program."""

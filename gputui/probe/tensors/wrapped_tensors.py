"""Tensors without memory of their own that wrap others: DTensor, sparse tensors, subclasses with inner tensors."""

from __future__ import annotations

from itertools import chain, repeat
from operator import is_
from typing import Any

from gputui.probe.objects.attributes import AttributeReader
from gputui.probe.objects.plain import mro_of, namespace_of
from gputui.probe.objects.torch_types import Tensor, Torch, tensor_base

UNREADABLE = (RuntimeError, TypeError, ValueError, AttributeError)
"""What PyTorch raises for a tensor that has no storage of its own, or no sizes."""
SPARSE_PARTS = ("_indices", "_values", "crow_indices", "ccol_indices", "row_indices", "col_indices", "values")
_DISPATCH = "__torch_dispatch__"


class WrapperReader:
    """Finds the tensors inside a wrapper without running the wrapper's code. Belongs to one look."""

    def __init__(self, torch: Torch, attributes: AttributeReader) -> None:
        self._attributes = attributes
        self._base = tensor_base(torch)
        self._tensor = torch.Tensor
        self._parameter = torch.nn.Parameter
        self._functorch = getattr(torch._C, "_functorch", None)
        self._dispatching: dict[int, tuple[type, bool]] = {}
        """What `dispatches` returns, by the id of the class; with the class, so that no other class gets its id."""
        self._no_dispatch = torch._C._disabled_torch_dispatch_impl

    def dispatches(self, cls: type) -> bool:
        """Whether PyTorch may call `__torch_dispatch__` of this class for a tensor's device, layout or shape."""
        if cls is self._tensor or cls is self._parameter:
            return False
        known = self._dispatching.get(id(cls))
        if known is None:
            own = (names[_DISPATCH] for names in map(namespace_of, mro_of(cls)) if _DISPATCH in names)
            known = self._dispatching[id(cls)] = cls, next(own, self._no_dispatch) is not self._no_dispatch
        return known[1]

    def wrapped(self, tensors: list[Tensor]) -> list[Tensor]:
        """The only tensor inside each of these; raises ValueError if one wraps none or several."""
        cls = type(tensors[0])
        if self.dispatches(cls) and all(map(is_, map(type, tensors), repeat(cls))):
            others = list(chain.from_iterable(map(dict.values, self._attributes.dicts_of(tensors))))
            columns = [*self._attributes.slots_of(tensors)[1], others]
            kinds = [self._are_tensors(column) for column in columns]
            if kinds[-1] <= {False} and sorted(map(sorted, kinds[:-1])) == [[False]] * (len(kinds) - 2) + [[True]]:
                return columns[kinds.index({True})]
        return [part for tensor in tensors for (part,) in [self.parts(tensor)]]

    def parts(self, tensor: Tensor) -> list[Tensor]:
        """The tensors inside a tensor that has no memory of its own."""
        if type(tensor) is not self._tensor and type(tensor) is not self._parameter:
            return [part for part in self._attributes.read(tensor).values() if issubclass(type(part), self._tensor)]
        if self._functorch is not None and self._functorch.is_functorch_wrapped_tensor(tensor):
            return [self._functorch.get_unwrapped(tensor)]
        return self._sparse_parts(tensor)

    def _are_tensors(self, values: list[Any]) -> set[bool]:
        """{True} if all values are tensors, {False} if none is, both if some are; an empty set for no values."""
        classes = list(map(type, values))
        return {issubclass(cls, self._tensor) for cls in dict(zip(map(id, classes), classes)).values()}

    def _sparse_parts(self, tensor: Tensor) -> list[Any]:
        if "sparse" not in str(self._base.layout.__get__(tensor)):
            return []
        return [part for name in SPARSE_PARTS if (part := self._sparse_part(tensor, name)) is not None]

    def _sparse_part(self, tensor: Tensor, name: str) -> Tensor:
        try:
            return getattr(self._base, name)(tensor)
        except UNREADABLE:  # each sparse layout has only two or three of these
            return None

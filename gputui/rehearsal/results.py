"""The results of operations without data; sizes of results are remembered, as the layers of a model are alike."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.utils._pytree import tree_map

META = torch.device("meta")
_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """`function` of each value in the nested lists, tuples and dictionaries that an operation takes or returns.

    PyTorch's `tree_map` takes ten times as long.
    """
    kind = type(value)
    if kind is tuple:
        return tuple([mapped(function, each) for each in value])
    if kind is list:
        return [mapped(function, each) for each in value]
    if kind is dict:
        return {name: mapped(function, each) for name, each in value.items()}
    return tree_map(function, value) if isinstance(value, (tuple, list)) else function(value)


def leaves(value: Any) -> list[Any]:
    """All values in nested lists, tuples and dictionaries, as one list."""
    found: list[Any] = []
    mapped(found.append, value)
    return found


class KnownResults:
    """The results of operations, for one rehearsal. `run` computes an operation on tensors without data."""

    def __init__(self, run: Callable[[Any, Any, Any], Any]) -> None:
        self._run = run
        self._is_new: dict[Any, bool] = {}
        """Whether an operation returns new tensors only, by operation."""
        self._known: dict[Any, tuple[bool, list[tuple[Any, Any, torch.dtype]]]] = {}
        """By `_key`: whether the result is a single tensor, and the size, strides and type of each tensor in it."""

    def of(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The result of an operation; made from the remembered sizes if one with such arguments was run before."""
        key = self._key(func, args, kwargs)
        known = None if key is None else self._known.get(key)
        if known is not None:
            is_one, described = known
            made = [torch.empty_strided(size, strides, dtype=dtype, device=META) for size, strides, dtype in described]
            return made[0] if is_one else tuple(made)
        result = self._run(func, args, kwargs)
        if key is not None:
            results = (result,) if type(result) is torch.Tensor else result
            if type(results) is tuple and _are_new(results, leaves((args, kwargs))):
                described = [(each.shape, each.stride(), each.dtype) for each in results]
                self._known[key] = type(result) is torch.Tensor, described
        return result

    def _key(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The operation and what its arguments are like; None if the result may depend on more than sizes and types."""
        if not self._returns_new(func):
            return None
        described: list[Any] = [func, *kwargs]
        for value in leaves((args, kwargs)):
            if isinstance(value, torch.Tensor):
                if not value.dim() or value.layout is not torch.strided or value.is_conj() or value.is_neg():
                    return None  # a tensor without dimensions is promoted by rules of its own
                described.append((value.shape, value.stride(), value.dtype))
            elif isinstance(value, _PLAIN):
                described.append((type(value), value))  # as 1 == 1.0 == True
            else:
                return None
        return tuple(described)

    def _returns_new(self, func: Any) -> bool:
        if func not in self._is_new:
            schema = func._schema
            are_tensors = bool(schema.returns) and all(str(each.type) == "Tensor" for each in schema.returns)
            named = (*schema.arguments, *schema.returns)
            self._is_new[func] = are_tensors and all(each.alias_info is None for each in named)
        return self._is_new[func]


def _are_new(results: tuple[Any, ...], arguments: list[Any]) -> bool:
    """Whether each result has memory of its own, of just its size; that of `_unsafe_view` is its argument's."""
    if not all(type(each) is torch.Tensor and each.layout is torch.strided and each.is_meta for each in results):
        return False
    tensors = [*results, *(value for value in arguments if isinstance(value, torch.Tensor))]
    storages = [tensor.untyped_storage()._cdata for tensor in tensors]
    return all(
        storages.count(each.untyped_storage()._cdata) == 1
        and each.untyped_storage().nbytes() == _like(each).untyped_storage().nbytes()
        for each in results
    )


def _like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=META)

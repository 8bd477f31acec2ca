"""Tensors of a GPU without data: each is a tensor on PyTorch's "meta" device that says it is on "cuda".

PyTorch's own rules for a GPU apply to such a tensor where they depend on the dispatch key (autocast, autograd, composed
kernels); where they depend on the device, `choices` replaces them.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .results import KnownResults, leaves, mapped

DEVICE = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
HOST = torch.device("cpu")
META = torch.device("meta")
ON_DEVICE = ("cuda", "meta")
FAKE_MODE = torch._C._TorchDispatchModeKey.FAKE
KEPT_ON_HOST_BYTES = 16 << 20
"""A larger copy in host memory has no data either."""
aten = torch.ops.aten


class UnsupportedError(Exception):
    """An operation that cannot be done without data; `operation` is its name in PyTorch."""

    def __init__(self, operation: str, reason: str) -> None:
        super().__init__(f"{operation}: {reason}")
        self.operation = operation
        self.reason = reason


class _Here(threading.local):
    """What this thread is doing."""

    place = DEVICE
    """The place of the results of the operation that runs, or ran last."""
    is_meta_meant = False
    """Whether the program itself asks for the meta device; PyTorch's code does so, too, for tensors without data."""
    is_in_kernel = False


here = _Here()


class DeviceTensor(torch.Tensor):
    """A tensor without data on the GPU, or (`place` is HOST) in host memory, such as a parameter of a new model."""

    place: torch.device = DEVICE

    @staticmethod
    def __new__(cls: Any, meta: torch.Tensor, place: torch.device = DEVICE) -> DeviceTensor:
        made: DeviceTensor = torch.Tensor._make_subclass(  # type: ignore[attr-defined]
            cls, meta, meta.requires_grad, device_for_backend_keys=place
        )
        if place is not DEVICE:
            made.place = place
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(kind is not DeviceTensor for kind in types):
            return NotImplemented  # left to the other class
        raise UnsupportedError(str(func), "it runs outside the step")

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return META if here.is_in_kernel else self.place  # kernels written in Python make results on this device

    is_cuda = property(lambda self: self.place is DEVICE)  # type: ignore[assignment]
    is_meta = property(lambda _: False)  # type: ignore[assignment]
    is_cpu = property(lambda self: self.place is HOST)  # type: ignore[assignment]

    def get_device(self) -> int:
        return -1 if self.place.index is None else self.place.index

    def tolist(self) -> Any:
        return _zeros_of(self).tolist()

    def numpy(self, **_: Any) -> Any:
        return _zeros_of(self).numpy()

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"tensor(..., device='{self.place}', size={tuple(self.shape)}, dtype={self.dtype})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.dim() == 0 else repr(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            copy = self.detach().clone().requires_grad_(self.requires_grad)
            if getattr(self, "_is_param", False):
                copy = torch.nn.Parameter(copy, self.requires_grad)
            memo[id(self)] = copy
        return memo[id(self)]


OWN_TYPES = frozenset({DeviceTensor, torch.Tensor, torch.nn.Parameter})
"""The types in `__torch_dispatch__` of tensors without data; before 2.9 these include plain tensors."""


class DeviceMode(TorchDispatchMode):
    """Runs operations on tensors without data, and calls `see` with each result on the GPU.

    `before` is called with each operation on the GPU, `after` with the operation, its arguments and its result.
    """

    def __init__(
        self,
        see: Callable[[torch.Tensor], None],
        before: Callable[[Any], None],
        after: Callable[[Any, Any, Any], None],
    ) -> None:
        super().__init__()
        self._see = see
        self._before = before
        self._after = after
        self._results = KnownResults(run_without_data)
        self.values_read = 0
        self.largest_results: dict[str, int] = {}
        """Operations whose result's size depends on data, with how often the largest size was assumed."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if torch._C._get_dispatch_mode(FAKE_MODE) is not None:
            return func(*args, **kwargs)  # PyTorch itself asks for the size of a result, as DTensor does
        if not OWN_TYPES.issuperset(types):
            return NotImplemented  # a wrapper, such as a DTensor: its own dispatch calls this for its parts
        flat = leaves((args, kwargs))
        device = kwargs.get("device")
        ishere = any(isinstance(leaf, DeviceTensor) for leaf in flat)
        if device is None and not ishere:
            return func(*args, **kwargs)
        if device is not None and not self._goes_by(torch.device(device), flat):
            return self._elsewhere(func, args, kwargs, ishere=ishere)
        known = kwargs if device is None else {**kwargs, "device": META}
        if device is None:
            here.place = _place_of(flat)
        if here.place is DEVICE:
            self._before(func)
        special = SPECIAL.get(func)
        done = NotImplemented if special is None else special(self, *args, **kwargs)
        return self._done(func, *mapped(without_data, (args, known))) if done is NotImplemented else done

    def _done(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation without data; returns its recorded result."""
        place = here.place
        result = self.wrapped(self._results.of(func, args, kwargs))
        if place is DEVICE:
            self._after(func, args, result)
        return result

    def _goes_by(self, device: torch.device, flat: Any) -> bool:
        """Whether the result for this device has no data; sets `here.place` to where it is."""
        if device.type == "cuda":
            here.place = DEVICE
        elif device.type == "cpu":
            large = (leaf for leaf in flat if isinstance(leaf, DeviceTensor) and _bytes_of(leaf) > KEPT_ON_HOST_BYTES)
            if next(large, None) is None:
                return False
            here.place = HOST
        return device.type in ("cuda", "cpu") or (device.type == "meta" and not here.is_meta_meant)

    def _elsewhere(self, func: Any, args: Any, kwargs: Any, *, ishere: bool) -> Any:
        """Run an operation whose result has data, or is on the meta device that the program means."""
        if not ishere:
            return func(*args, **kwargs)
        return run_without_data(func, args, kwargs) if here.is_meta_meant else _to_host(args, kwargs)

    def largest(self, operation: str) -> None:
        """Count an operation whose result is assumed to be as large as it can be."""
        self.largest_results[operation] = self.largest_results.get(operation, 0) + 1

    def wrapped(self, result: Any) -> Any:
        """The result with its meta tensors wrapped as tensors of `here.place`, those on the GPU recorded."""
        return mapped(self._wrap, result)

    def _wrap(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if not isinstance(leaf, DeviceTensor):
            if leaf.device.type != "meta":
                return leaf
            leaf = DeviceTensor(leaf, here.place)
        if leaf.place is DEVICE:
            self._see(leaf)
        return leaf


def _place_of(flat: Any) -> torch.device:
    """The place of a result: the GPU if one of the tensors is on it, else the host."""
    return DEVICE if any(isinstance(leaf, DeviceTensor) and leaf.place is DEVICE for leaf in flat) else HOST


def _bytes_of(tensor: torch.Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


def _zeros_of(tensor: torch.Tensor, dtype: Any = None) -> torch.Tensor:
    return torch.zeros(tensor.shape, dtype=dtype or tensor.dtype, device=HOST)


def _to_host(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A copy in host memory: zeros in place of tensors without data."""
    return mapped(
        lambda leaf: _zeros_of(leaf, kwargs.get("dtype")) if isinstance(leaf, DeviceTensor) else leaf, args[0]
    )


def without_data(leaf: Any) -> Any:
    """An argument of an operation; a host tensor becomes a tensor without data."""
    if isinstance(leaf, torch.Tensor) and not isinstance(leaf, DeviceTensor) and leaf.device.type != "meta":
        return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=META)
    return leaf


class _InKernel:
    """Makes operations run PyTorch's meta kernels, in the body of the `with`."""

    def __enter__(self) -> None:
        here.is_in_kernel = True
        self._guards = (torch._C._DisableTorchDispatch(), torch._C._PreserveDispatchKeyGuard())
        for guard in self._guards:
            guard.__enter__()
        torch._C._set_meta_in_tls_dispatch_include(True)

    def __exit__(self, *_: Any) -> None:
        here.is_in_kernel = False
        for guard in reversed(self._guards):
            guard.__exit__(None, None, None)


def run_without_data(func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operation by its meta kernel, which only computes the size of the result, or by its decomposition."""
    try:
        with _InKernel():
            return func(*args, **kwargs)
    except NotImplementedError as error:
        missing = error
    from torch._decomp import decomposition_table

    decomposed = decomposition_table.get(func)
    if decomposed is None:
        raise UnsupportedError(str(func), "PyTorch does not say what size its result has") from missing
    with _InKernel():
        return decomposed(*args, **kwargs)


def _value(mode: DeviceMode, tensor: torch.Tensor) -> Any:
    """The value that a program reads of a tensor, which is not known: False, 0.0 or 1."""
    mode.values_read += 1
    if tensor.dtype == torch.bool:
        return False
    return 0.0 if tensor.dtype.is_floating_point else 1


def _equal(mode: DeviceMode, *_: Any) -> bool:
    """The result of `torch.equal`, as if something differed."""
    mode.values_read += 1
    return False


def _copy_into(_mode: DeviceMode, into: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    return into  # the sizes fit or PyTorch's own copy would have failed


def _to_copy(mode: DeviceMode, tensor: torch.Tensor, **kwargs: Any) -> Any:
    """No copy of a tensor that is there already: PyTorch asks for one as it takes the tensor for one on "meta"."""
    changes = kwargs.get("dtype") not in (None, tensor.dtype) or kwargs.get("memory_format") not in KEEPING
    is_there = isinstance(tensor, DeviceTensor) and tensor.place is here.place
    if changes or kwargs.get("device") is None or not is_there:
        return NotImplemented
    return mode.wrapped(run_without_data(aten.alias.default, (tensor,), {}))


def _nonzero(mode: DeviceMode, tensor: torch.Tensor) -> Any:
    """The result as if no element were zero."""
    mode.largest("nonzero")
    return mode.wrapped(torch.empty((tensor.numel(), tensor.dim()), dtype=torch.long, device=META))


def _masked_select(mode: DeviceMode, tensor: torch.Tensor, mask: torch.Tensor) -> Any:
    """The result as if the mask let all elements pass."""
    mode.largest("masked_select")
    size = torch.broadcast_shapes(tensor.shape, mask.shape)
    return mode.wrapped(torch.empty(size.numel(), dtype=tensor.dtype, device=META))


def _index(mode: DeviceMode, tensor: torch.Tensor, indices: Any) -> Any:
    """The result as if masks among the indices let all elements pass."""
    plain: list[Any] = []
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            mode.largest("index")
            plain += [torch.empty(index.numel(), dtype=torch.long, device=META)] * index.dim()
        else:
            plain.append(without_data(index))
    return mode.wrapped(run_without_data(aten.index.Tensor, (tensor, plain), {}))


def _native_dropout(mode: DeviceMode, tensor: torch.Tensor, _probability: float, _is_training: Any) -> Any:
    """The result and its mask; the kernel for GPUs allocates the mask first."""
    mask = mode.wrapped(torch.empty(tensor.shape, dtype=torch.bool, device=META))
    return mode.wrapped(run_without_data(aten.empty_like.default, (tensor,), {"dtype": tensor.dtype})), mask


KEEPING = (None, torch.preserve_format)
SPECIAL: dict[Any, Callable[..., Any]] = {
    aten._local_scalar_dense.default: _value,
    aten.equal.default: _equal,
    aten.copy_.default: _copy_into,
    aten._to_copy.default: _to_copy,
    aten.nonzero.default: _nonzero,
    aten.masked_select.default: _masked_select,
    aten.index.Tensor: _index,
    aten.index_put_.default: _copy_into,
    aten.native_dropout.default: _native_dropout,
    aten.record_stream.default: lambda *_: None,
}
"""Operations that need data or do nothing, with what is run in their place; NotImplemented: run the operation."""

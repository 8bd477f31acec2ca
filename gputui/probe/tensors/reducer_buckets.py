"""Computes the sizes of DistributedDataParallel's gradient buckets, which C++ holds, from the sizes of its parameters.

PyTorch's Reducer copies gradients into buckets to reduce them, unless the gradients are views of the buckets. In the
first step, all gradients of one dtype share one bucket; with `find_unused_parameters`, they fill buckets of
`bucket_cap_mb` in the order of the parameters. From the second step on they fill such buckets in the order in which
gradients arrive, which is taken for the reverse of the parameters'. The first bucket is smaller
(`torch/csrc/distributed/c10d/reducer.cpp`, `compute_bucket_assignment_by_size`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from gputui.probe.objects.attributes import module_dict
from gputui.probe.objects.torch_types import Module, Torch, tensor_base
from gputui.probe.search.modules import KnownModule
from gputui.probe.tensors.wrapped_tensors import UNREADABLE
from gputui.protocol.categories import OTHER

REDUCER = "reducer"
"""The value of `gputui.model.attached.owners.Keeper`."""
FIRST_BUCKET_BYTES = 1 << 20
LEAST_BYTES = 1 << 20
"""Smaller buckets are left out: other blocks have such sizes, too."""
_MODULE = "torch.nn.parallel.distributed"


class ReducerBuckets:
    """Computes the buckets' sizes once for each wrapper, as its parameters stay the same for as long as it lives."""

    def __init__(self) -> None:
        self._sizes: dict[int, tuple[object, list[tuple[int, int]]]] = {}

    def known_sizes(self, torch: Torch, wrappers: Iterable[KnownModule]) -> list[dict[str, Any]]:
        """The device, size and owner of each bucket that may exist: rows as of `known_sizes.known_sizes`."""
        cls = getattr(sys.modules.get(_MODULE), "DistributedDataParallel", None)
        if cls is None:
            return []
        known = []
        for wrapper in wrappers:
            module = wrapper.reference()
            if module is None or not issubclass(type(module), cls):
                continue
            reference, sizes = self._sizes.get(id(module), (None, []))
            if reference is not wrapper.reference:
                sizes = _bucket_sizes(torch, module)
                self._sizes = {**self._sizes, id(module): (wrapper.reference, sizes)}
            fields = {"category": OTHER, "owner": f"the gradient buckets of {wrapper.name}", "keeper": REDUCER}
            known += [{"device": device, "size_bytes": size, **fields} for device, size in sizes]
        return known


def _bucket_sizes(torch: Torch, module: Module) -> list[tuple[int, int]]:
    """The device and size of each bucket in the first step and after it; [] if gradients are views of buckets."""
    values = module_dict(module)
    parameters, cap_bytes = dict.get(values, "_module_parameters"), dict.get(values, "bucket_bytes_cap")
    if (
        dict.get(values, "gradient_as_bucket_view") is not False
        or type(parameters) is not list
        or type(cap_bytes) is not int
    ):
        return []
    first_bytes = FIRST_BUCKET_BYTES if dict.get(values, "bucket_bytes_cap_default") else cap_bytes
    try:
        rows = sorted(_described(torch, parameters), key=itemgetter(0))
    except UNREADABLE:
        return []
    found: dict[tuple[int, int], None] = {}
    for (device, _), group in groupby(rows, key=itemgetter(0)):
        sizes = [size for _, size in group]
        limits = [first_bytes, cap_bytes]
        before = _filled(sizes, limits) if dict.get(values, "find_unused_parameters") is True else [sum(sizes)]
        for size in (*before, *_filled(sizes[::-1], limits)):
            found[device, size] = None
    return [(device, size) for device, size in found if size >= LEAST_BYTES]


def _described(torch: Torch, parameters: list[Any]) -> list[tuple[tuple[int, str], int]]:
    """((device, dtype), size in bytes) of each parameter that is trained."""
    base = tensor_base(torch)
    trained = [tensor for tensor in parameters if base.requires_grad.__get__(tensor)]
    return [
        ((base.get_device(tensor), str(base.dtype.__get__(tensor))), base.numel(tensor) * base.element_size(tensor))
        for tensor in trained
    ]


def _filled(sizes: list[int], limits: list[int]) -> Iterator[int]:
    """The sizes of buckets filled in turn: each is closed once it reaches its limit; later ones have the last limit."""
    filled, number = 0, 0
    for size in sizes:
        filled += size
        if filled >= limits[min(number, len(limits) - 1)]:
            yield filled
            filled, number = 0, number + 1
    if filled:
        yield filled

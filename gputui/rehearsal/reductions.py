"""The buffer that blocks of threads share for a sum over the rows of a matrix, as for the gradient of a bias."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

THREADS_OF_A_BLOCK = 512
WARP = 32
WIDEST_VECTOR = 4
LEAST_VALUES, MOST_VALUES = 16, 256
"""How many values a thread sums up: numbers in ATen/native/cuda/Reduce.cuh."""
SUMS = frozenset({"sum", "mean"})


class Processors(NamedTuple):
    """How many multiprocessors a GPU has, and how many threads each runs."""

    number: int
    threads: int


def buffer_bytes(name: str, args: Any, result: Any, processors: Processors) -> int:
    """The bytes that the kernel of an operation allocates beside its result, and frees; 0 for most operations."""
    if name not in SUMS or not isinstance(result, torch.Tensor) or not args[0].is_contiguous():
        return 0
    inputs, outputs = args[0], result.numel()
    dims = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else ()
    reduced = {dim % inputs.dim() for dim in dims} if inputs.dim() else set()
    kept = [dim for dim, size in enumerate(inputs.shape) if size > 1 and dim not in reduced]
    if not outputs or not kept or any(dim > kept[0] and inputs.shape[dim] > 1 for dim in reduced):
        return 0
    element_bytes = 8 if result.dtype in (torch.float64, torch.int64) else 4
    return element_bytes * _elements(inputs.numel() // outputs, outputs, processors)


def _elements(rows: int, columns: int, processors: Processors) -> int:
    """How many partial sums the blocks write for each other, computed as in setReduceConfig of Reduce.cuh."""
    vector = next(width for width in (WIDEST_VECTOR, 2, 1) if columns % width == 0)
    most = THREADS_OF_A_BLOCK // vector
    wide, high = _power_of_two(columns // vector, most), _power_of_two(rows, most)
    height = min(high, most // min(wide, WARP))
    width = min(wide, most // height)
    if rows < min(height * LEAST_VALUES, MOST_VALUES):
        return 0
    values = -(-rows // height)
    grid = -(-(columns // vector) // width)
    target = processors.number * (processors.threads // (width * height))
    if values < MOST_VALUES or grid > target:
        return 0
    blocks = max(min(-(-target // grid), -(-values // LEAST_VALUES)), -(-values // MOST_VALUES))
    return columns * blocks * width * vector if blocks > 1 else 0


def _power_of_two(number: int, most: int) -> int:
    """The largest power of two up to `number`; `most` if that is not larger than the number."""
    return 1 << (max(number, 1).bit_length() - 1) if number < most else most

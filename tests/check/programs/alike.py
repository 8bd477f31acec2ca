"""Does each operation twice on tensors without data, plainly and by remembered results; prints those that differ."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))
from gputui.rehearsal.results import KnownResults

aten = torch.ops.aten


def made(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(size, dtype=dtype, device="meta")


def run(func, args, kwargs):
    runs.append(func)
    return func(*args, **kwargs)


def described(result: object) -> list[object]:
    several = result if isinstance(result, (list, tuple)) else [result]
    return [
        [list(each.shape), list(each.stride()), str(each.dtype), each.untyped_storage().nbytes()] for each in several
    ]


WIDE, HALF, NUMBER = made(4, 8), made(4, 8, dtype=torch.bfloat16), made(dtype=torch.float64)
CASES = {
    "mul": (aten.mul.Tensor, (WIDE, WIDE), {}, True),
    "transposed": (aten.mul.Tensor, (WIDE.t(), WIDE.t()), {}, True),
    "half": (aten.mul.Tensor, (HALF, HALF), {}, True),
    "mixed": (aten.add.Tensor, (HALF, WIDE), {}, True),
    "by a whole number": (aten.add.Scalar, (made(3, dtype=torch.int32), 1), {}, True),
    "by a broken number": (aten.add.Scalar, (made(3, dtype=torch.int32), 1.0), {}, True),
    "by a truth": (aten.add.Scalar, (made(3, dtype=torch.bool), True), {}, True),
    "sum": (aten.sum.dim_IntList, (WIDE, [1]), {"dtype": torch.float64}, True),
    "sum kept": (aten.sum.dim_IntList, (WIDE, [1], True), {}, True),
    "mm": (aten.mm.default, (WIDE, WIDE.t()), {}, True),
    "layer norm": (aten.native_layer_norm.default, (WIDE, [8], None, None, 1e-5), {}, True),
    "dropout": (aten.native_dropout.default, (HALF, 0.1, True), {}, True),
    "the largest and their places": (aten.max.dim, (WIDE, 1), {}, True),
    "a number takes part": (aten.mul.Tensor, (HALF, NUMBER), {}, False),
    "a view without a word": (aten._unsafe_view.default, (WIDE, [8, 4]), {}, False),
    "a view": (aten.view.default, (WIDE, [8, 4]), {}, False),
    "in place": (aten.add_.Tensor, (WIDE, WIDE), {}, False),
    "several": (aten.split.Tensor, (WIDE, 2), {}, False),
}
known = KnownResults(run)
wrong = {}
for name, (func, args, kwargs, is_remembered) in CASES.items():
    runs: list[object] = []
    results = [described(known.of(func, args, kwargs)) for _ in range(2)]
    if results != [described(func(*args, **kwargs))] * 2 or (len(runs) == 1) != is_remembered:
        wrong[name] = [results, len(runs)]
print(json.dumps({"cases": len(CASES), "wrong": wrong}))  # noqa: T201

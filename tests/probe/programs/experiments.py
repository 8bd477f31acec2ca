"""The experiments people make to understand the allocator, each a list of moments as the probe sees them.

    experiments.py NAME      prints [[moment, allocated MiB, reserved MiB, releasable MiB, driver MiB, peak MiB]]

"driver" is what the process has taken from the device since the start.
"""

from __future__ import annotations

import sys

import torch
from looking import driver_free, print_json, release, statistics

MIB, GIB = 1024**2, 1024**3
FLOATS_PER_GIB = GIB // 4
MOMENTS: list[list] = []


def moment(label: str) -> None:
    prediction, counters = release(0), statistics(0)
    counts = (
        counters["allocated_bytes"],
        counters["reserved_bytes"],
        prediction.releasable_bytes,
        START_FREE - driver_free(0),
        counters["peak_allocated_bytes"],
    )
    MOMENTS.append([label, *(count // MIB for count in counts)])


def floats(gib: int) -> torch.Tensor:
    return torch.empty(gib * FLOATS_PER_GIB, dtype=torch.float32, device="cuda:0")


def make_move_assign_delete() -> None:
    x = floats(1)
    moment("1 GiB made")
    y = floats(1)
    moment("another made")
    y = y.cpu()
    moment("the second moved to the CPU")
    torch.cuda.empty_cache()
    moment("cache emptied")
    x = floats(1)
    moment("the name assigned again")
    del x, y
    moment("deleted")
    torch.cuda.empty_cache()
    moment("cache emptied again")


def mean_backward() -> None:
    x = floats(3).requires_grad_()
    moment("x of 3 GiB")
    y = 5 * x
    moment("y = 5 * x")
    y.mean().backward()
    moment("y.mean().backward()")
    del y
    torch.cuda.empty_cache()
    moment("y deleted, cache emptied")


def one_small_tensor_holds_a_segment() -> None:
    tensors = [torch.empty(4 * MIB, dtype=torch.uint8, device="cuda:0") for _ in range(5)]
    moment("5 of 4 MiB in one segment")
    del tensors[1:]
    moment("one of them left")
    torch.cuda.empty_cache()
    moment("cache emptied, the segment is kept")
    del tensors
    torch.cuda.empty_cache()
    moment("the last deleted, cache emptied")


EXPERIMENTS = {
    "make_move_assign_delete": make_move_assign_delete,
    "mean_backward": mean_backward,
    "one_small_tensor_holds_a_segment": one_small_tensor_holds_a_segment,
}
torch.cuda.init()
START_FREE = driver_free(0)
EXPERIMENTS[sys.argv[1]]()
print_json({"moments": MOMENTS})

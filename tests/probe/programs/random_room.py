"""Random programs: they try the largest requests predicted to fit, and check that PyTorch refuses one more byte.

random_room.py FIRST_SEED COUNT      prints {"tried", "mismatches": [sentence]}
"""

from __future__ import annotations

import gc
import random
import sys

import torch
from looking import driver_free, look, print_json, statistics

from gputui.explain.memory.release import predict_device
from gputui.explain.memory.room import room
from gputui.model.attached.analysis import Room

MIB = 1024**2
SIZES = (512, 700 * 1024, 3 * MIB, 11 * MIB, 37 * MIB, 300 * MIB)


def room_now() -> Room:
    layout, (free, total) = look(), torch.cuda.mem_get_info(0)
    return room(layout, predict_device(layout, 0), device_free_bytes=free, device_total_bytes=total)


def make(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda:0")


def retries() -> int:
    return statistics(0)["num_alloc_retries"]


def scatter(choose: random.Random) -> list[torch.Tensor]:
    """Live tensors with holes between them, and some freed ones that wait for another stream."""
    tensors = [make(max(1, int(choose.choice(SIZES) * choose.uniform(0.5, 1.5)))) for _ in range(50)]
    for tensor in choose.sample(tensors, 5):
        tensor.record_stream(STREAM)
    return choose.sample(tensors, 25)


def try_room(seed: int, report: dict) -> None:
    def expect(what: str, holds: bool) -> None:  # noqa: FBT001
        report["tried"] += 1
        if not holds:
            report["mismatches"].append(f"seed {seed}: {what}: {limits}, free {driver_free(0)}")

    tensors = scatter(random.Random(seed))
    torch.cuda.synchronize()
    make(1)
    limits, before = room_now(), retries()
    make(limits.now_bytes)
    expect("fits as it is", retries() == before)
    torch.cuda.empty_cache()
    tensors += scatter(random.Random(seed + 1))
    limits = room_now()
    try:
        make(limits.after_release_bytes)
        expect("fits after a release", holds=True)
    except torch.OutOfMemoryError as refusal:
        expect(f"fits after a release: {refusal}", holds=False)
    if HOW == "fits":
        return
    torch.cuda.empty_cache()
    tensors += scatter(random.Random(seed + 2))
    limits, before = room_now(), retries()
    try:
        make(limits.now_bytes + 1)
        expect("one byte more needs a release", retries() > before)
    except torch.OutOfMemoryError:
        expect("one byte more needs a release", limits.after_release_bytes == limits.now_bytes)
    tensors += scatter(random.Random(seed + 3))
    limits = room_now()
    try:
        make(limits.after_release_bytes + 1)
        expect("one byte more fails", holds=False)
    except torch.OutOfMemoryError:
        expect("one byte more fails", holds=True)


def main() -> None:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    report: dict = {"tried": 0, "mismatches": []}
    for seed in range(first, first + count):
        try_room(seed, report)
        gc.collect()
        torch.cuda.empty_cache()
    print_json(report)


HOW = sys.argv[3]
torch.empty(1, device="cuda:0")
STREAM = torch.cuda.Stream(0)
main()

"""A training that is fed by a real DataLoader, in a manner that its input names; "ready" when it is under way."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, Dataset


def decode() -> None:
    """Work of Python alone, as decoding is."""
    end = time.perf_counter() + 0.02
    while time.perf_counter() < end:
        pass


class Images(Dataset[torch.Tensor]):
    """Samples that take time to decode, or none."""

    def __init__(self, *, are_encoded: bool) -> None:
        self.are_encoded = are_encoded

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, place: int) -> torch.Tensor:
        if self.are_encoded:
            decode()
        return torch.zeros(64)


def batches(manner: str) -> Iterator[torch.Tensor]:
    """From workers that decode, from the main thread, from workers that have nothing to do."""
    workers = 0 if manner == "alone" else 2
    images = Images(are_encoded=manner in ("workers", "alone"))
    return iter(
        DataLoader(images, batch_size=4, num_workers=workers, multiprocessing_context="fork" if workers else None)
    )


manner = sys.argv[1]
for step, _batch in enumerate(batches(manner)):
    if step == 8:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
    for _ in range(5 if manner == "main thread" else 0):
        decode()
    if manner == "well":
        time.sleep(0.5)  # as a program waits for its GPU, far longer than it waits for a core on a busy machine

"""A launcher and its ranks:  job.py [EXTRA_MIB]  starts eight processes with the variables that torchrun sets.

Rank 5 alone keeps a list of batches, EXTRA_MIB (default 256) in all.
"""

from __future__ import annotations

import os
import sys
import time

import torch
import torch._dynamo  # the optimizer imports it: here once for all ranks

RANKS, ODD = 8, 5


def launch() -> None:
    """Fork the ranks, each once the previous one is ready, and wait for them."""
    launcher = os.getpid()
    for rank in range(RANKS):
        read_end, write_end = os.pipe()
        if os.fork() == 0:
            numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS}
            os.environ.update({name: str(number) for name, number in numbers.items()})
            train(rank, launcher, write_end)
        os.close(write_end)
        os.read(read_end, 1)
    while True:
        os.wait()


def say(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def train(rank: int, launcher: int, write_end: int) -> None:
    """Train a small model, with a pause after each step."""
    import gputui.probe  # noqa: F401 - the probe listens from here on

    torch.set_num_threads(1)
    torch.cuda.set_device(rank)
    model = torch.nn.Linear(1024, 1024, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    extra_mib = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    kept = [
        torch.empty(32 << 20, dtype=torch.uint8, device="cuda") for _ in range(extra_mib // 32 if rank == ODD else 0)
    ]
    say(f"ready {rank} {len(kept)}\n")
    os.write(write_end, b".")
    while os.getppid() == launcher:
        model(torch.randn(64, 1024, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.2)
    os._exit(0)


launch()

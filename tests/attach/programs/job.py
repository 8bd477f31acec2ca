"""A launcher and its ranks:  job.py [EXTRA_MIB]  starts eight processes with the variables that torchrun sets.

Rank 5 keeps a list of batches, EXTRA_MIB (256) in all, that no other rank keeps.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

RANKS, ODD = 8, 5


def launch() -> None:
    """Start the ranks, each when the one before is ready, and wait for them."""
    children = []
    for rank in range(RANKS):
        numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS, "OMP_NUM_THREADS": 1}
        environment = {**os.environ, **{name: str(number) for name, number in numbers.items()}}
        child = subprocess.Popen([sys.executable, "-W", "ignore", *sys.argv], env=environment, stdout=subprocess.PIPE)
        children.append(child)
        say(child.stdout.readline().decode())
    for child in children:
        child.wait()


def say(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def train(rank: int) -> None:
    """Steps of a small model, each followed by a pause."""
    import torch

    import gputui.probe  # noqa: F401 - the probe listens from here on

    launcher = os.getppid()
    torch.cuda.set_device(rank)
    model = torch.nn.Linear(1024, 1024, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    extra_mib = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    kept = [
        torch.empty(32 << 20, dtype=torch.uint8, device="cuda") for _ in range(extra_mib // 32 if rank == ODD else 0)
    ]
    say(f"ready {rank} {len(kept)}\n")
    while os.getppid() == launcher:
        model(torch.randn(64, 1024, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.2)


if "RANK" in os.environ:
    train(int(os.environ["RANK"]))
else:
    launch()

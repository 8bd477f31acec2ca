"""One rank of a job, with the probe, that trains until it is killed; it works with or without PyTorch."""

import os
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec

import gputui.probe


def trainer() -> Callable[[], None]:
    """A function that runs one training step."""
    if find_spec("torch") is None:
        return lambda: time.sleep(0.001)
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        model(torch.randn(32, 64, device=device)).sum().backward()
        optimizer.step()
        time.sleep(0.005)

    return step


step = trainer()
step()
sys.stdout.write(f"{gputui.probe.status()}\n")
sys.stdout.flush()
launcher = os.getppid()
while os.getppid() == launcher:
    step()

"""Runs out of memory on 4 GiB with memory stuck between live blocks; a word chooses who records the history."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch

if "GPUTUI_BLACK_BOX" in os.environ:  # what is tested is not how fast a busy machine is
    from gputui.probe.black_box import error_look, observer

    observer.STOP_S, observer.ALWAYS_S, error_look.READING_MS = 30.0, 120.0, 20_000.0
MIB = 1 << 20
HISTORIES = {"own": {}, "short": {"max_entries": 30, "stacks": "python"}}


def blocks(count: int, size_mib: int) -> list[torch.Tensor]:
    return [torch.empty(size_mib * MIB, dtype=torch.uint8, device="cuda") for _ in range(count)]


if "early" in sys.argv[2:]:  # before CUDA is initialised
    torch.cuda.memory._record_memory_history(**HISTORIES[sys.argv[1]])
first = blocks(1, 2)
if sys.argv[1:] and sys.argv[1] and "early" not in sys.argv[2:]:
    torch.cuda.memory._record_memory_history(**HISTORIES[sys.argv[1]])
warm = blocks(40, 60)
del warm
kept = blocks(40, 40)
if "wait" in sys.argv[2:]:
    sys.stdout.write("waiting\n")
    sys.stdout.flush()
    while not Path("go on").exists():
        time.sleep(0.05)
large = blocks(1, 1300)  # fails here: stuck
sys.stdout.write("fits\n")

"""What the programs of this folder share: memory on a device, pieces of work with known results, and the longest wait.

A program prints `ready PID`, the process to look into, works until the file `done` is in its folder, says how many
results were wrong, and ends with status 3. How late its threads or tasks came back from waits goes into the file
`waits`, by the phase that the link `phase` names.
"""

import json
import os
import sys
import time
from collections import defaultdict
from functools import cache

import torch

BEAT_S = 0.002
STATUS = 3
_late_s = defaultdict(list)


@cache
def weights():
    """What is on the device; made by the first piece of work in a process, as CUDA does not survive a fork."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return [torch.zeros(256, 256, device=device, requires_grad=True) for _ in range(8)]


def piece(number):
    """A piece of work: a step on the device, and a sum on the host."""
    held = weights()
    gradients = torch.autograd.grad(sum((weight * weight).sum() for weight in held), held)
    assert len(gradients) == len(held)
    return int(torch.arange(number % 100 + 1).sum()) + len({str(value) for value in range(number % 50)})


def is_right(number, result):
    """Whether that is the result of a piece of work."""
    return result == sum(range(number % 100 + 1)) + number % 50


def has_more():
    """Whether the program goes on."""
    return not os.path.exists("done")


def beat(began_s):
    """Note how late a wait of BEAT_S that began then has ended."""
    _late_s[os.readlink("phase")].append(max(0.0, time.monotonic() - began_s - BEAT_S))


def ready(pid=None):
    """Say which process to look into."""
    print("ready", pid or os.getpid(), flush=True)


def end(wrong):
    """Say how many results were wrong, keep the waits, and end."""
    with open("waits", "w") as file:
        json.dump(_late_s, file)
    print("wrong", wrong, flush=True)
    sys.exit(STATUS)

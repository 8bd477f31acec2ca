"""Allocates and frees at random until its launcher has ended, so that an attached viewer always has news."""

import os
import random
import sys
import time

import torch

choose = random.Random(1)
held: list[torch.Tensor] = []
launcher = os.getppid()
sys.stdout.write("ready\n")
sys.stdout.flush()
while os.getppid() == launcher:
    held.append(torch.empty(choose.randrange(1, 64) << 20, dtype=torch.uint8, device="cuda"))
    while len(held) > choose.randrange(20, 40):
        del held[choose.randrange(len(held))]
    time.sleep(0.02)

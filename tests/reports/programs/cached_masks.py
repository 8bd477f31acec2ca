"""A function caches a mask for each length of a sequence, without a bound."""

import functools

import torch
from resting import FIXED, rest


@functools.lru_cache(maxsize=2 if FIXED else None)  # keeps
def mask(length):
    return torch.zeros(length, length, device="cuda")


for length in range(1500, 1540):
    mask(length).sum()
rest(sum(4 * length * length for length in range(1540 - (2 if FIXED else 40), 1540)))

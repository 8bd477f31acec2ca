"""The steps of a rehearsal, taken on a real GPU."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.utils._pytree import tree_map

from .requests import Requests
from .training import dict_of, take_step, training_of

STEPS = 2


def measured_bytes(function: Callable[..., Any], arguments: dict[str, Any]) -> int | None:
    """The most that PyTorch reserved during the steps, beyond what it had before them; None without a GPU."""
    if not torch.cuda.is_available():
        return None
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    training = training_of(function(**arguments))
    if isinstance(training.model, torch.nn.Module):
        training.model.to("cuda")
    batch = tree_map(lambda leaf: leaf.to("cuda") if isinstance(leaf, torch.Tensor) else leaf, dict_of(training.batch))
    requests = Requests()
    for _ in range(STEPS):
        take_step(training, batch, requests)
    return int(torch.cuda.max_memory_reserved() - before)

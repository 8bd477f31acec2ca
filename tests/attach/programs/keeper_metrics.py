"""What `keeper.py` imports: a module whose globals and class attributes keep tensors."""

from __future__ import annotations

import torch

HISTORY: list[torch.Tensor] = []


class Log:
    entries: list[torch.Tensor] = []  # noqa: RUF012 - the mistake that a test is about


def remember(value: torch.Tensor) -> None:
    HISTORY.append(value)


def record(value: torch.Tensor) -> None:
    Log.entries.append(value)

"""A small model of eight layers, whose activations are checkpointed but for the layers in $WHOLE."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDTH, LAYERS, WORDS = 256, 8, 1000
WHOLE = {int(number) for number in os.environ.get("WHOLE", "").split(",") if number}


class Layer(nn.Module):
    """An MLP with a residual."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.is_whole = number in WHOLE

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_whole:
            return self.inner(x)
        return checkpoint(self.inner, x, use_reentrant=False)

    def inner(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(x)))


class Model(nn.Module):
    """Words in, logits out."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(map(Layer, range(LAYERS)))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.embed(words)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def setup(batch: int = 8) -> Any:
    """A model, its optimizer and a batch."""
    model = Model()
    return model, torch.optim.AdamW(model.parameters()), torch.randint(0, WORDS, (batch, 256))


def broken() -> Any:
    """A batch of another width."""
    return nn.Linear(4, 4), torch.randn(2, 5)

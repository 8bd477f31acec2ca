"""A small GPT on the first device:  gpt.py HABIT [LAYERS [PAUSE_S]]  trains it with one bad habit until it is ended."""

from __future__ import annotations

import sys
import time
from contextlib import suppress

import torch
from torch import nn

import gputui.probe  # noqa: F401 - the probe listens from here on

torch.backends.cuda.enable_cudnn_sdp(False)
WORDS, WIDTH, HEADS = 4096, 1024, 8
LAYERS = int(sys.argv[2]) if len(sys.argv) > 2 else 6
PAUSE_S = float(sys.argv[3]) if len(sys.argv) > 3 else 0.05


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm1(x)
        x = x + self.attention(normed, normed, normed, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS)
        self.features: list[torch.Tensor] = []
        self.keeps_features = False

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
            if self.keeps_features:
                self.features.append(x.detach()[:, ::8].contiguous())
        logits = self.head(x)
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


with torch.device("cuda"):
    model = GPT()
optimizer = torch.optim.AdamW(model.parameters())
losses: list[torch.Tensor] = []
newest: list[torch.Tensor] = []


def batch(length: int = 256) -> torch.Tensor:
    return torch.randint(0, WORDS, (8, length), device="cuda")


def train(length: int = 256, *, set_to_none: bool = True) -> None:
    loss = model(batch(length))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=set_to_none)


def fragment(pause_s: float = 0.0) -> None:
    """Keep features of ever longer sequences between the activations, until an out-of-memory error."""
    model.keeps_features = True
    length = 256
    while True:
        train(length)
        rest(pause_s)
        length += 32


def leak() -> None:
    """Append to a list of losses that are never backpropagated."""
    train()
    losses.append(model(batch(64)))


def keep_gradients() -> None:
    train(set_to_none=False)


def empty_cache() -> None:
    train()
    torch.cuda.empty_cache()


def evaluate() -> None:
    """Evaluate without `torch.no_grad()`, which keeps a graph."""
    model.eval()
    newest[:] = [model(batch())]


def rest(seconds: float = PAUSE_S) -> None:
    """Pause so that the probe can look."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.001)


HABITS = {
    "behave": train,
    "leak": leak,
    "keep_gradients": keep_gradients,
    "empty_cache": empty_cache,
    "evaluate": evaluate,
    "rest": rest,
}

habit = sys.argv[1]
if habit == "fragment":
    with suppress(torch.OutOfMemoryError):
        fragment()
    optimizer.zero_grad()
    habit = "rest"  # a look while it still grows would read NVML and PyTorch at different moments
sys.stdout.write("ready\n")
sys.stdout.flush()
if habit == "die":
    fragment(pause_s=0.1)
is_seen_in_forward = habit in ("behave", "keep_gradients")
if is_seen_in_forward:
    model.head.register_forward_pre_hook(lambda *_: rest())
while True:
    HABITS[habit]()
    if not is_seen_in_forward:
        rest()

"""The program in two shipped recordings: a GPT that trains well, is validated, leaks, and runs out of memory.

It trains on batches of one length first, with marks after forward, backward and step. Then the kept logits of a
validation leave segments stuck. From there on losses are kept with their graphs until memory runs out.

    recorded_training.py well       is larger, and has steps without a mistake alone, with batches of two sizes
"""

import sys
import time

import torch
from torch import nn

import gputui.probe

IS_WELL = "well" in sys.argv[1:]
WORDS, WIDTH, LAYERS, LENGTH, BATCH = 32_000, 2560, 9 if IS_WELL else 5, 1024, 28 if IS_WELL else 8
GOOD_STEPS = 3
SMALL_BATCH, SMALL_STEPS, MARKED_STEPS = 20, range(4, 20), (12, 22)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        scores = torch.softmax(q @ k.transpose(1, 2) / WIDTH**0.5, dim=-1)
        x = x + self.out(scores @ v)
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(2 * LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def rest(seconds: float) -> None:
    """Sleep as long as the step takes on a real device, in short pieces so that the probe can look in between."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.001)


def batch(length: int, size: int = BATCH) -> torch.Tensor:
    return torch.randint(0, WORDS, (size, length), device="cuda")


def loss_of(tokens: torch.Tensor) -> torch.Tensor:
    logits = model(tokens)
    return nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def train(length: int, *, marks: bool = False, size: int = BATCH) -> torch.Tensor:
    loss = loss_of(batch(length, size))
    rest(0.3)
    if marks:
        gputui.probe.mark("after forward")
        rest(1.5)
    loss.backward()
    rest(0.2)
    if marks:
        gputui.probe.mark("after backward")
        rest(1.5)
    optimizer.step()
    optimizer.zero_grad()
    if marks:
        gputui.probe.mark("after step")
    rest(1.0)
    return loss


def validate() -> None:
    """Keep a slice of each batch's logits, while everything around them is freed."""
    model.eval()
    with torch.no_grad():
        for number in range(6):
            logits = model(batch(LENGTH - 96 * number))
            predictions.append(logits[:, -1].clone())
            kept.append(logits[:, ::64].contiguous())
            rest(0.6)
    model.train()
    gputui.probe.mark("after validation")


time.sleep(2)
with torch.device("cuda"):
    model = GPT()
gputui.probe.mark("model on the device")
rest(2)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
losses: list[torch.Tensor] = []
predictions: list[torch.Tensor] = []
kept: list[torch.Tensor] = []
for step in range(1, 1_000_000):
    if IS_WELL:
        train(LENGTH, marks=step in MARKED_STEPS, size=SMALL_BATCH if step in SMALL_STEPS else BATCH)
        continue
    if step <= GOOD_STEPS:
        train(LENGTH, marks=step == 2)
        continue
    if step == GOOD_STEPS + 1:
        validate()
    losses.append(loss_of(batch(160)))  # keeps its graph: this is the leak
    train(LENGTH - 32 * (step % 9))

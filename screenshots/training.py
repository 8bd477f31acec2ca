"""The program in the pictures of the attach screens: a small GPT, mixed batch lengths, too many tensors kept."""

import time

import torch
from torch import nn

import gputui.probe  # noqa: F401 - the import starts the probe

WORDS, WIDTH, LAYERS = 32_000, 1024, 8


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


model = GPT().to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
history: list[torch.Tensor] = []


def step(number: int) -> None:
    tokens = torch.zeros(8, 256 + 64 * (number % 5), dtype=torch.long, device="cuda")
    logits = model(tokens)
    logits.float().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if number % 4 == 0:
        history.append(logits.detach()[:, :32].clone())


number = 0
while True:
    number += 1
    step(number)
    time.sleep(0.1)

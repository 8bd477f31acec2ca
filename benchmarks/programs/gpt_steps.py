"""Trains a GPT with PyTorch alone until it is ended:  gpt_steps.py LAYERS WIDTH BATCH TOKENS [reads]

Its first line of output is what one step needs in bytes, `max_memory_allocated()`. With `reads` each step waits for its
loss, as loops that print it do.
"""

import sys
from collections.abc import Callable

import torch
from torch import nn

LAYERS, WIDTH, BATCH, TOKENS = map(int, sys.argv[1:5])
READS_LOSS = sys.argv[5:] == ["reads"]
WORDS = 32_000
WARM_UP = 3


class Layer(nn.Module):
    """Attention and a feed-forward part, as in GPT-2."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """`hidden` is (batch, tokens, width)."""
        heads = self.qkv(self.norm1(hidden)).view(BATCH, TOKENS, 3, WIDTH // 64, 64).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        hidden = hidden + self.out(attended.transpose(1, 2).reshape(BATCH, TOKENS, WIDTH))
        return hidden + self.mlp(self.norm2(hidden))


class GPT(nn.Module):
    """Returns the loss of predicting each token by those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.wte, self.h = nn.Embedding(WORDS, WIDTH), nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """`tokens` is (batch, tokens)."""
        hidden = self.wte(tokens)
        for layer in self.h:
            hidden = layer(hidden)
        return nn.functional.cross_entropy(self.head(hidden).flatten(0, 1), tokens.flatten())


def training() -> Callable[[], None]:
    """Make model and optimizer; the result is a step."""
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    with torch.device("cuda"):
        model = GPT()
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        tokens = torch.randint(0, WORDS, (BATCH, TOKENS)).cuda()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if READS_LOSS:
            loss.item()

    return step


def main() -> None:
    """Train."""
    step = training()
    for _ in range(WARM_UP):
        step()
    torch.cuda.reset_peak_memory_stats()
    step()
    print(torch.cuda.max_memory_allocated(), flush=True)
    while True:
        step()


if __name__ == "__main__":
    main()

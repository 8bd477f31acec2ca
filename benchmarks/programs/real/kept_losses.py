"""A training loop with a bug: its list of losses keeps every step's graph, and grows."""

import time

import torch
from torch import nn


def new_model() -> nn.Module:
    layers = [layer for _ in range(100) for layer in (nn.Linear(128, 128), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(128, 10)).to("cuda")


def main() -> None:
    model = new_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    while True:
        time.sleep(0.01)  # the batch is read
        images, labels = torch.randn(32, 128).to("cuda"), torch.randint(0, 10, (32,)).to("cuda")
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss)  # the bug: loss.item() would keep a number
        if len(losses) % 100 == 0:
            print(f"step {len(losses)} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()

"""A training loop with a bug: its list of losses keeps every step's graph, and grows."""

import itertools
import time

import torch
from steps import update
from torch import nn


def new_model() -> nn.Module:
    layers = [layer for _ in range(100) for layer in (nn.Linear(128, 128), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(128, 10)).to("cuda")


def main() -> None:
    model = new_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for step in itertools.count():
        time.sleep(0.01)  # the batch is read
        images, labels = torch.randn(32, 128).to("cuda"), torch.randint(0, 10, (32,)).to("cuda")
        loss = nn.functional.cross_entropy(model(images), labels)
        update(step, loss, optimizer)
        losses.append(loss)  # the bug: loss.item() would keep a number


if __name__ == "__main__":
    main()

"""A small training in a thread; the main thread waits for it to end."""

import itertools
import threading
import time

import torch
from steps import update
from torch import nn


def train() -> None:
    model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 10)).to("cuda")
    optimizer = torch.optim.Adam(model.parameters())
    for step in itertools.count():
        time.sleep(0.01)  # the batch is read
        images, labels = torch.randn(64, 512).to("cuda"), torch.randint(0, 10, (64,)).to("cuda")
        loss = nn.functional.cross_entropy(model(images), labels)
        update(step, loss, optimizer)


def main() -> None:
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()


if __name__ == "__main__":
    main()

"""A training with a leak in one place:  keeper.py HABIT [OBJECTS]  trains until it is ended.

OBJECTS is how many Python objects of other kinds the program has, in dictionaries of dictionaries and in lists.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import keeper_metrics
import torch
from torch import nn

import gputui.probe  # noqa: F401 - the probe listens from here on

WIDTH, BATCH = 1024, 512
OBJECTS = int(sys.argv[2]) if len(sys.argv) > 2 else 0


class Record:
    def __init__(self, number: int) -> None:
        self.number = number
        self.words = [str(number)]
        self.inside = {"text": [number], "parts": (number, [number])}


records = [Record(number) for number in range(OBJECTS // 6)]
by_number = {record.number: record for record in records}

with torch.device("cuda"):
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
optimizer = torch.optim.AdamW(model.parameters())


class Holder:
    """An object with any attributes."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class Metrics:
    def __init__(self) -> None:
        self.outputs: list[torch.Tensor] = []

    def after_batch(self, value: torch.Tensor) -> None:
        self.outputs.append(value)


def in_closure() -> Callable[[torch.Tensor], None]:
    kept = []

    def keep(value: torch.Tensor) -> None:
        kept.append(value)

    return keep


def output() -> torch.Tensor:
    """2 MiB on the device, as in a validation."""
    with torch.no_grad():
        return model(torch.randn(BATCH, WIDTH, device="cuda"))


def loss() -> torch.Tensor:
    return model(torch.randn(BATCH, WIDTH, device="cuda")).square().mean()


def fail(value: torch.Tensor) -> None:
    message = f"cannot use {value.shape}"
    raise ValueError(message)


def train() -> None:
    step_loss = loss()
    step_loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def main() -> None:
    outputs: list[torch.Tensor] = []
    rows: list[torch.Tensor] = []
    losses: list[torch.Tensor] = []
    used_losses: list[torch.Tensor] = []
    total_loss = torch.zeros((), device="cuda")
    history = torch.zeros(0, WIDTH, device="cuda")
    cache: dict[int, torch.Tensor] = {}
    buffer: deque[tuple[torch.Tensor, dict[str, torch.Tensor]]] = deque(maxlen=10_000)
    errors: list[Exception] = []
    trainer = Holder(callbacks=[Holder(), Metrics()], loop=Holder(state=Holder(batch=Holder(seen=[]))))
    keep = in_closure()

    def keep_error() -> None:
        try:
            fail(output())
        except ValueError as error:
            errors.append(error)

    def keep_used() -> None:
        used_losses.append(loss())
        used_losses[-1].backward()

    habits: dict[str, Callable[[int], object]] = {
        "outputs": lambda step: outputs.append(output()),
        "rows": lambda step: rows.append(output()[7].detach()),
        "losses": lambda step: losses.append(loss()),
        "cache": lambda step: cache.update({step: output()}),
        "buffer": lambda step: buffer.append((output(), {"reward": output()[0].clone()})),
        "callback": lambda step: trainer.callbacks[1].after_batch(output()),
        "deep": lambda step: trainer.loop.state.batch.seen.append(output()),
        "closure": lambda step: keep(output()),
        "global": lambda step: keeper_metrics.remember(output()),
        "class": lambda step: keeper_metrics.record(output()),
        "errors": lambda step: keep_error(),
        "behave": lambda step: output(),
    }
    habit = habits.get(sys.argv[1])
    step = 0
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        train()
        if habit is not None:
            habit(step)
        elif sys.argv[1] == "total":
            total_loss = total_loss + loss()
        else:
            history = torch.cat((history, output()))
        step += 1
        time.sleep(0.03)


main()

"""A training or an evaluation with one sickness:  sick.py NAME [cure]  runs it until it is ended, cured with `cure`.

Healthy programs have names, too. The device should have 4 GiB; `idle` at the end of a name stops after a few steps, as
a notebook does between two cells. SICK_WIDTH and SICK_BATCH make tensors larger, SICK_PAUSE_S steps slower.
"""

from __future__ import annotations

import copy
import os
import sys
import time
from collections import deque
from collections.abc import Callable

import torch
from torch import nn

import gputui.probe  # noqa: F401 - the probe listens from here on

NAME = sys.argv[1]
CURED = "cure" in sys.argv[2:]
WIDTH, BATCH, LAYERS = int(os.environ.get("SICK_WIDTH", "1024")), int(os.environ.get("SICK_BATCH", "4096")), 4
STEPS_BEFORE_IDLE = 8
PAUSE_S = float(os.environ.get("SICK_PAUSE_S", "0.08"))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.fc2(torch.relu(self.fc1(x)))


def build(layers: int = LAYERS) -> nn.Sequential:
    with torch.device("cuda"):
        return nn.Sequential(*(Layer() for _ in range(layers)))


def inputs(size: int = BATCH) -> torch.Tensor:
    return torch.randn(size, WIDTH, device="cuda")


class Log:
    seen: list[torch.Tensor] = []  # noqa: RUF012 - the mistake that a test is about


model = build()
optimizer = torch.optim.AdamW(model.parameters())


def train(size: int = BATCH, *, set_to_none: bool = True) -> torch.Tensor:
    loss = model(inputs(size)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=set_to_none)
    return loss


def rest() -> None:
    """Pause so that the probe can look."""
    end = time.monotonic() + PAUSE_S
    while time.monotonic() < end:
        time.sleep(0.001)


def stand_still() -> None:
    while True:
        time.sleep(0.05)


def ready() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def repeat(step: Callable[[int], object]) -> None:
    """Run steps until the program is ended; an idle program stops after a few."""
    ready()
    number = 0
    while True:
        step(number)
        number += 1
        rest()
        if NAME.endswith("_idle") and number == STEPS_BEFORE_IDLE:
            stand_still()


def forgotten_no_grad() -> None:
    scores = torch.zeros((), device="cuda")
    with torch.set_grad_enabled(not CURED):
        ready()
        while True:
            scores = scores + model(inputs(64)).square().mean()
            rest()


def losses_kept() -> None:
    losses: list[object] = []

    def step(_: int) -> None:
        train()
        loss = model(inputs(64)).square().mean()
        losses.append(loss.item() if CURED else loss)

    repeat(step)


def predictions_kept() -> None:
    predictions: list[torch.Tensor] = []

    def step(_: int) -> None:
        with torch.no_grad():
            prediction = model(inputs(512))
        predictions.append(prediction.cpu() if CURED else prediction)

    repeat(step)


def graph_kept() -> None:
    first = model(inputs()).square().mean()
    if CURED:
        first = first.detach()
    repeat(lambda _: (train(512), first))


def graph_kept_idle() -> None:
    out = model(inputs())
    if CURED:
        out = out.detach()
    ready()
    stand_still()


def gradients_kept() -> None:
    wide = build(24)
    sgd = torch.optim.SGD(wide.parameters(), lr=1e-3)

    def step(_: int) -> None:
        loss = wide(inputs(512)).square().mean()
        rest()
        loss.backward()
        sgd.step()
        sgd.zero_grad(set_to_none=CURED)

    repeat(step)


def gradients_kept_idle() -> None:
    wide = build(24)
    wide(inputs(512)).square().mean().backward()
    if CURED:
        wide.zero_grad(set_to_none=True)
    ready()
    stand_still()


def old_optimizer() -> None:
    net = build(24)
    adam = torch.optim.AdamW(net.parameters())
    net(inputs(64)).square().mean().backward()
    adam.step()
    adam.zero_grad()
    net = build(24)
    if CURED:
        adam = torch.optim.AdamW(net.parameters())

    def step(_: int) -> None:
        net(inputs(64)).square().mean().backward()
        adam.step()
        net.zero_grad()

    repeat(step)


def second_model() -> None:
    net = build(24)
    adam = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    ema = copy.deepcopy(net).requires_grad_(False)
    if CURED:
        ema.cpu()

    def step(_: int) -> None:
        net(inputs(512)).square().mean().backward()
        adam.step()
        adam.zero_grad()
        with torch.no_grad():
            for average, parameter in zip(ema.parameters(), net.parameters(), strict=True):
                average.lerp_(parameter.to(average.device), 0.01)

    repeat(step)


def replay_buffer() -> None:
    buffer: deque[torch.Tensor] = deque(maxlen=256)

    def step(_: int) -> None:
        train(512)
        with torch.no_grad():
            for _ in range(16):
                transition = model(inputs(512))
                buffer.append(transition.cpu() if CURED else transition)

    repeat(step)


def closure() -> None:
    def recorder() -> Callable[[torch.Tensor], None]:
        outputs: list[torch.Tensor] = []

        def record(output: torch.Tensor) -> None:
            outputs.append(output.cpu() if CURED else output)

        return record

    record = recorder()

    def step(_: int) -> None:
        with torch.no_grad():
            record(model(inputs(512)))

    repeat(step)


def class_attribute() -> None:
    def step(_: int) -> None:
        with torch.no_grad():
            output = model(inputs(512))
        Log.seen.append(output.cpu() if CURED else output)

    repeat(step)


def exception_kept() -> None:
    def fail() -> None:
        hidden = model(inputs())
        message = f"cannot use {tuple(hidden.shape)}"
        raise ValueError(message)

    last_error = None
    try:
        fail()
    except ValueError as error:
        last_error = error
    if CURED:
        last_error = str(last_error)
    repeat(lambda _: (train(64), last_error))


def growing_lengths() -> None:
    if CURED:
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    repeat(lambda number: train(BATCH + 192 * number))


def cache_emptied() -> None:
    def step(_: int) -> None:
        train()
        if not CURED:
            torch.cuda.empty_cache()

    repeat(step)


def healthy_training() -> None:
    repeat(lambda _: train())


def healthy_varying_lengths() -> None:
    repeat(lambda number: train(1024 + 512 * (number * 7 % 5)))


def healthy_evaluation() -> None:
    def step(_: int) -> None:
        with torch.no_grad():
            model(inputs())

    repeat(step)


def healthy_metrics() -> None:
    losses: list[float] = []
    repeat(lambda _: losses.append(train().item()))


def healthy_accumulation() -> None:
    def step(number: int) -> None:
        model(inputs()).square().mean().backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()

    repeat(step)


def healthy_idle() -> None:
    repeat(lambda _: train())


PROGRAMS = {name: value for name, value in list(globals().items()) if callable(value) and value.__module__ == __name__}

PROGRAMS[NAME]()

"""What `gputui whatif --model` is given: the models of `training_steps.py`, other forms, and mistakes.

Run as a program, it rehearses the functions that its arguments name, and prints the reports as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from models import MODELS, batch_of, loss_of, optimizer_of
from torch import nn

torch.backends.cudnn.enabled = False  # as in training_steps.py


def training(name: str) -> Any:
    """A model with its optimizer, a batch and the loss."""
    build, kind = MODELS[name]
    model = build()
    return model, optimizer_of(model), batch_of(kind, int(os.environ.get("BATCH", "4"))), loss_of


gpt, lora, resnet, unet = (partial(training, name) for name in ("gpt", "lora", "resnet", "unet"))


def small() -> tuple[nn.Module, torch.Tensor]:
    """A layer of 4 MiB, and a batch of 64 KiB."""
    return nn.Linear(1024, 1024, bias=False), torch.randn(16, 1024)


def evaluation() -> Any:
    """No optimizer."""
    return small()


def dictionary() -> Any:
    """A model like those of transformers: called by name, with a loss of its own."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = small()[0]

        def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            output = self.layer(inputs)
            return {"logits": output, "loss": (output - labels).square().mean()}

    model = Model()
    return model, optimizer_of(model), {"inputs": small()[1], "labels": small()[1]}


def on_host() -> Any:
    """Two layers with one weight, made in host memory, and an optimizer that holds it."""
    with torch.device("cpu"):
        model = nn.Sequential(small()[0], small()[0])
    model[1].weight = model[0].weight
    return model, optimizer_of(model), small()[1]


def step() -> Any:
    """A step of its own, as with mixed precision, which reads and prints the loss."""
    model, batch = small()
    optimizer, scaler = optimizer_of(model), torch.amp.GradScaler("cuda")

    def take() -> None:
        with torch.autocast("cuda", torch.float16):
            loss = model(batch.to("cuda")).float().sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        sys.stdout.write(f"loss {loss:.3f} {loss.item()} on {loss.device}\n")

    return take


def masked() -> Any:
    """A loss of the elements that a mask selects."""
    model, batch = small()
    return model, optimizer_of(model), batch, lambda output, _: output[output > 0].sum()


def number() -> int:
    """Nothing that can be trained."""
    return 5


def broken() -> Any:
    """A batch that does not fit the model."""
    model, _ = small()
    return model, optimizer_of(model), torch.randn(16, 3)


def unknown_size() -> Any:
    """A result of which only the data tells the size."""
    model, batch = small()
    return model, optimizer_of(model), batch, lambda output, _: torch.unique(output).sum()


def compiled() -> Any:
    """Compiled code that asks for the GPU itself."""
    raise RuntimeError("No CUDA GPUs are available")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))
    from gputui.rehearsal.rehearse import report_of

    standard_output, sys.stdout = sys.stdout, sys.stderr
    reports = {name: report_of(f"ahead:{name}", {}, 2) for name in sys.argv[1:]}
    standard_output.write(json.dumps(reports) + "\n")

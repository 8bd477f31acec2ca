"""The models that are trained, small, and what one forward pass of each is."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2] / "probe" / "programs"))

from gpt import GPT
from resnet import ResNet
from unet import UNet

LENGTH, VOCABULARY, PIXELS = 256, 8000, 192


class LowRank(nn.Module):
    """A frozen linear layer with a trained change of low rank, as peft makes it."""

    def __init__(self, base: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's output and the change."""
        return self.base(x) + self.up(self.down(x))


def gpt(*, checkpointed: bool = False) -> nn.Module:
    """A GPT of 6 layers."""
    return GPT(VOCABULARY, 512, 8, 6, LENGTH, checkpointed)


def lora() -> nn.Module:
    """The same, frozen, with changes of low rank in its attention."""
    model = gpt().requires_grad_(False)
    for layer in model.layers:
        layer.attention.qkv = LowRank(layer.attention.qkv)
        layer.attention.out = LowRank(layer.attention.out)
    return model


class Mixed(nn.Module):
    """A model in mixed precision."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The model's output, under autocast."""
        with torch.autocast("cuda", torch.bfloat16):
            return self.model(x).float()


MODELS = {
    "gpt": (gpt, "tokens"),
    "gpt-checkpointed": (lambda: gpt(checkpointed=True), "tokens"),
    "gpt-mixed": (lambda: Mixed(gpt()), "tokens"),
    "lora": (lora, "tokens"),
    "resnet": (lambda: ResNet(64), "images"),
    "unet": (UNet, "images"),
}


def batch_of(kind: str, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What goes into a model, and the target."""
    if kind == "tokens":
        tokens = torch.zeros(batch, LENGTH, dtype=torch.long, device="cuda")
        return tokens, tokens
    images = torch.empty(batch, 3, PIXELS, PIXELS, device="cuda")
    return images, images


def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The loss of a language model, or something like one."""
    if target.dtype is torch.long:
        return nn.functional.cross_entropy(output.view(-1, VOCABULARY), target.view(-1))
    return output.float().square().mean()


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """AdamW on what is trained."""
    return torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad])

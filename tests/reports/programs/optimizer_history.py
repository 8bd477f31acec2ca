"""A relaxation by quasi-Newton steps keeps a history of differences that carry the graph of the forces."""

from dataclasses import dataclass

import torch
from resting import FIXED, rest
from torch import nn


@dataclass
class RelaxState:
    positions: torch.Tensor
    history: torch.Tensor


class Batcher:
    def __init__(self, model):
        self.model = model
        positions = torch.zeros(4096, 64, device="cuda")
        self.state = RelaxState(positions, torch.zeros_like(positions))

    def step(self):
        positions = self.state.positions.detach().requires_grad_()
        forces = self.model(positions)
        change = (forces * self.state.history).tanh()
        self.state.history = change.detach() if FIXED else change  # keeps
        self.state.positions = positions.detach()


def relax(batcher, steps):
    batcher.model(batcher.state.positions)
    before = torch.cuda.memory_allocated() - batcher.state.history.nbytes
    for _ in range(steps):
        batcher.step()
    rest(torch.cuda.memory_allocated() - before)


relax(Batcher(nn.Sequential(nn.Linear(64, 512), nn.SiLU(), nn.Linear(512, 64)).cuda()), 16)

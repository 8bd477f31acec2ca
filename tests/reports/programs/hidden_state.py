"""A recurrent policy acts for a whole episode; its hidden state is handed on with the graph of all steps before."""

import torch
from resting import FIXED, rest
from torch import nn


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(128, 512)
        self.head = nn.Linear(512, 4)

    def forward(self, observation, hidden):
        hidden = self.cell(observation, hidden)
        return self.head(hidden), hidden


def episode(policy, steps):
    hidden = torch.zeros(1024, 512, device="cuda")
    policy(torch.zeros(1024, 128, device="cuda"), hidden)
    before = torch.cuda.memory_allocated() - hidden.nbytes
    for _ in range(steps):
        scores, hidden = policy(torch.zeros(1024, 128, device="cuda"), hidden)  # keeps
        scores.argmax(1)
        if FIXED:
            hidden = hidden.detach()
    rest(torch.cuda.memory_allocated() - before)


episode(Policy().cuda(), 40)

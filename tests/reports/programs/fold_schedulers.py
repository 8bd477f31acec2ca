"""Each fold makes a model, an optimizer and a scheduler; scheduler and optimizer refer to each other."""

import gc

import torch
from resting import FIXED, rest
from torch import nn

gc.disable()  # as between two collections of the oldest generation, which can be far apart


class Warmup:
    def __init__(self, optimizer, steps):
        self.optimizer, self.steps, self.done = optimizer, steps, 0
        plain_step = optimizer.step

        def step(*args, **kwargs):  # keeps
            self.done += 1
            return plain_step(*args, **kwargs)

        optimizer.step = step


def train_fold(rows):
    model = nn.Linear(2048, 2048).cuda()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    Warmup(optimizer, 100)
    model(torch.zeros(len(rows), 2048, device="cuda")).sum().backward()
    optimizer.step()


def main():
    before = torch.cuda.memory_allocated()
    for fold in range(6):
        train_fold(range(fold * 100, fold * 100 + 100))
        if FIXED:
            gc.collect()
    rest(torch.cuda.memory_allocated() - before)


torch.zeros(8, 8, device="cuda") @ torch.zeros(8, 8, device="cuda")  # the workspace of cuBLAS is not of the folds
gc.collect()
main()

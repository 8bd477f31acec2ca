"""A module is made again and again; a hook of each refers to the module that holds it."""

import gc

import torch
from resting import FIXED, rest
from torch import nn

gc.disable()  # as between two collections of the oldest generation, which can be far apart


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2048, 2048, bias=False, device="cuda")

        def hook(module, inputs, output):  # keeps
            return self.fc(output)

        self.register_forward_hook(hook)


def main():
    before = torch.cuda.memory_allocated()
    for _ in range(12):
        net = Net()
        del net
        if FIXED:
            gc.collect()
    rest(torch.cuda.memory_allocated() - before)


gc.collect()
main()

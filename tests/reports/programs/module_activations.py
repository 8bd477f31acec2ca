"""A privacy engine's hook keeps each layer's input for a backward pass that never comes: evaluation in train mode."""

import torch
from resting import FIXED, bytes_of, rest
from torch import nn


def capture(module, inputs, output):
    if not module.training:
        return
    if not hasattr(module, "activations"):
        module.activations = []
    module.activations.append(inputs[0].detach())  # keeps


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(512, 512) for _ in range(12))
        for layer in self.layers:
            layer.register_forward_hook(capture)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x


def evaluate(model, batches):
    if FIXED:
        model.eval()
    with torch.no_grad():
        return [model(batch.cuda()).mean().item() for batch in batches]


model = Net().cuda()
evaluate(model, [torch.zeros(1024, 512) for _ in range(20)])
rest(bytes_of(tensor for layer in model.layers for tensor in getattr(layer, "activations", [])))

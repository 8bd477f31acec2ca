"""An ensemble trains its members one after the other and keeps all of them, with their optimizers, on the device."""

import torch
from resting import FIXED, bytes_of, rest
from torch import nn


class Learner:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 1024)).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), fused=True)

    def fit(self):
        self.model(torch.zeros(64, 1024, device="cuda")).sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


class Ensemble:
    def __init__(self):
        self.learners = []

    def train(self, size):
        for _ in range(size):
            learner = Learner()
            learner.fit()
            if FIXED:
                learner.model.cpu()
                learner.optimizer = None
            self.learners.append(learner)  # keeps


ensemble = Ensemble()
ensemble.train(12)
tensors = [p for learner in ensemble.learners for p in learner.model.parameters()]
tensors += [
    t
    for learner in ensemble.learners
    if learner.optimizer
    for s in learner.optimizer.state.values()
    for t in s.values()
]
rest(bytes_of(tensor for tensor in tensors if tensor.is_cuda))

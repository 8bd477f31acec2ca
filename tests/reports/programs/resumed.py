"""A training goes on from a checkpoint, which stays in a global variable with all weights."""

import io

import torch
from resting import FIXED, bytes_of, rest
from torch import nn


def make():
    with torch.device("cuda"):
        model = nn.Sequential(*(nn.Linear(2048, 2048, bias=False) for _ in range(8)))
    return model, torch.optim.AdamW(model.parameters(), fused=True)


def step(model, optimizer):
    model(torch.zeros(32, 2048, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def saved():
    model, optimizer = make()
    step(model, optimizer)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    return file


checkpoint = torch.load(saved(), map_location="cuda")  # keeps
model, optimizer = make()
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])
kept_bytes = bytes_of(checkpoint["model"].values())
if FIXED:
    del checkpoint
    kept_bytes = 0
step(model, optimizer)
rest(kept_bytes)

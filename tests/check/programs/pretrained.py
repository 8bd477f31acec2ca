"""Steps of a model that is read from a folder."""

from __future__ import annotations

import sys

import torch
from transformers import AutoModelForCausalLM

torch.backends.cudnn.enabled = False
model = AutoModelForCausalLM.from_pretrained(sys.argv[1]).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    words = torch.ones(2, 16, dtype=torch.long, device="cuda")
    model(input_ids=words, labels=words).loss.backward()
    optimizer.step()
    optimizer.zero_grad()

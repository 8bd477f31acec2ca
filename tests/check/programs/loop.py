"""A training as people write it, of which the argument says what goes wrong; it prints the peaks after two steps.

Its optimizer is made before the model is moved, its data come from other processes, its precision is mixed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import urllib.error
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.backends.cudnn.enabled = False
STEPS, WIDTH, WORDS = 2, 512, 4000


class Words(Dataset):  # type: ignore[type-arg]
    """As many as a step needs."""

    def __len__(self) -> int:
        return 8 * STEPS

    def __getitem__(self, _index: int) -> Any:
        return torch.randint(0, WORDS, (128,))


class Model(nn.Module):
    """Two layers between an embedding and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.embed(words)
        for layer in self.layers:
            x = x + nn.functional.dropout(layer(x).relu(), 0.1)
        return self.head(x)


def train() -> None:
    """Two steps."""
    model: nn.Module = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.to("cuda")
    if "WORLD_SIZE" in os.environ:
        model = shared(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for words in DataLoader(Words(), batch_size=8, num_workers=1, pin_memory=True):
        inputs = words.to("cuda", non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16, enabled="WORLD_SIZE" not in os.environ):
            loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), inputs.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        sys.stderr.write(f"loss {loss.item():.2f}\n")


def shared(model: nn.Module) -> nn.Module:
    """The model as one of several ranks has it."""
    import torch.distributed as dist

    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if what == "ddp":
        return nn.parallel.DistributedDataParallel(model, device_ids=[int(os.environ["LOCAL_RANK"])])
    from torch.distributed.fsdp import fully_shard

    for layer in [*model.layers, model]:  # type: ignore[misc, list-item]
        fully_shard(layer)
    return model


what = sys.argv[1]
if what == "exit":
    sys.exit(3)
elif what == "network":
    raise urllib.error.URLError("Name or service not known")
elif what == "thread":
    thread = threading.Thread(target=lambda: torch.zeros(3, device="cuda").missing)
    thread.start()
    thread.join()
elif what == "job":
    shared(Model())
elif what == "context":
    from torch.distributed.tensor.experimental import context_parallel

    context_parallel(None)
else:
    train()
stats = torch.cuda.memory_stats()
peaks = {f"peak_{name}": stats.get(f"{name}.all.peak") for name in ("reserved_bytes", "allocated_bytes")}
sys.stdout.write(json.dumps(peaks) + "\n")

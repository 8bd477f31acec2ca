"""Training steps with and without PyTorch's memory history, as `gputui run --memory-history` switches it on."""

from __future__ import annotations

import json
import sys
import time

import torch

from gputui.probe.allocator.memory_history import _TRACE, KEPT_EVENTS

STEPS, LAYERS, WIDTH = 40, 24, 64
model = torch.nn.Sequential(
    *(
        torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.LayerNorm(WIDTH), torch.nn.GELU())
        for _ in range(LAYERS)
    )
).cuda()
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)


def steps_s() -> float:
    """How long some steps take."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(STEPS):
        model(torch.ones(32, WIDTH, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def requests() -> int:
    """How many blocks were requested so far."""
    return torch.cuda.memory_stats()["allocation.all.allocated"]


steps_s()
rounds = []
for _ in range(int(sys.argv[1])):
    torch.cuda.memory._record_memory_history(enabled=None)
    without_s = steps_s()
    torch.cuda.memory._record_memory_history(**_TRACE, max_entries=KEPT_EVENTS)
    first = requests()
    rounds.append({"without_s": without_s, "with_s": steps_s(), "events": 2 * (requests() - first)})
while sum(map(len, torch.cuda.memory._snapshot()["device_traces"])) < KEPT_EVENTS:
    steps_s()
began = time.perf_counter()
torch._C._cuda_memorySnapshot(*([None] if torch.cuda.memory_snapshot.__code__.co_argcount else []))
sys.stdout.write(json.dumps({"torch": torch.__version__, "rounds": rounds, "read_s": time.perf_counter() - began}))

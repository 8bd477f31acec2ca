"""A training that is drawn: `drawn.py SEED` trains for ever and keeps a tensor of each step somewhere.

The seed decides the model, the batch, accumulation, checkpointing, precision, workers of the loader, a pause in the
step, what lies beside it, and where the tensors are kept. The first line of the output says all of that as JSON, with
`keeper`, what the program itself calls the place.
"""

# ruff: noqa: ARG005

from __future__ import annotations

import functools
import json
import random
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch.utils.checkpoint import checkpoint

random.seed(int(sys.argv[1]))
BESIDE = random.choice([0, 1_000, 30_000, 200_000, 1_000_000])
WIDTH, LAYERS, BATCH = random.choice([512, 768, 1024]), random.choice([2, 6, 12]), random.choice([64, 256])
PAUSE_S = random.choice([0.0, 0.02, 0.1])
OPTIMIZER: Any = random.choice([torch.optim.SGD, torch.optim.AdamW, torch.optim.NAdam])
ACCUMULATION, WORKERS = random.choice([1, 4]), random.choice([0, 0, 2])
IS_CHECKPOINTED, IS_MIXED = random.random() < 0.25, random.random() < 0.5
KEPT_EVERY = random.choice([1, 1, 3])
LEAST_PAUSE_S = 0.03
"""A program that keeps more would soon have no memory left."""
SEEN: list[torch.Tensor] = []
BY_STEP: dict[int, dict[str, Any]] = {}


class Row:
    """A row of a data set."""

    def __init__(self, number: int) -> None:
        self.key, self.tags, self.meta = f"r{number}", [number, str(number)], {"id": number, "span": (number, number)}


class Node:
    """A node of a graph."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.edges: list[Node] = []


def beside() -> object:
    """What the program has in memory that has nothing to do with the GPU."""
    kind = random.choice(["rows", "tensors", "graph", "vocabulary", "nothing"])
    if kind == "rows":
        return [Row(number) for number in range(BESIDE // 4)]
    if kind == "tensors":
        return [torch.zeros(16) for _ in range(min(BESIDE, 200_000))]
    if kind == "graph":
        nodes = [Node(number) for number in range(BESIDE // 2 + 2)]
        for node in nodes:
            node.edges = random.choices(nodes, k=2)
        return nodes
    return {f"word{number}": (number, [number]) for number in range(BESIDE // 2)} if kind == "vocabulary" else None


class Tracker:
    """Has the kept tensors in an attribute, a nested dictionary, or a list of dictionaries."""

    def __init__(self) -> None:
        self.outputs: list[torch.Tensor] = []
        self.metrics: dict[str, Any] = {"train": {}, "val": defaultdict(list)}
        self.events: list[dict[str, Any]] = []


class Slotted:
    """An object without a dictionary."""

    __slots__ = ("kept", "name")

    def __init__(self) -> None:
        self.kept: list[torch.Tensor] = []
        self.name = "slotted"


class History(list):  # type: ignore[type-arg]
    """A list of its own kind."""


class Registry:
    """Keeps tensors on the class."""

    entries: ClassVar[dict[str, torch.Tensor]] = {}


class Worker(threading.Thread):
    """Another thread's object."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.inbox: deque[tuple[int, torch.Tensor]] = deque()

    def run(self) -> None:
        while True:
            time.sleep(1)


class Block(torch.nn.Module):
    """A layer that may keep what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Linear(2 * WIDTH, WIDTH)
        self.norm, self.seen = torch.nn.LayerNorm(WIDTH), []

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return value + self.down(torch.nn.functional.gelu(self.up(self.norm(value))))


def closure() -> Callable[[torch.Tensor], None]:
    """A function that keeps what it is called with."""
    remembered: list[torch.Tensor] = []

    def keep(value: torch.Tensor) -> None:
        remembered.append(value)

    return keep


@functools.cache
def embedded(_step: int) -> torch.Tensor:
    """A result that is kept for each argument."""
    return torch.zeros(512, 1024, device="cuda")


tracker, slotted, history, worker, remember = Tracker(), Slotted(), History(), Worker(), closure()
blocks = [Block() for _ in range(LAYERS)]
worker.start()
PLACES: dict[str, Callable[[int, torch.Tensor], object]] = {
    "tracker.outputs": lambda step, value: tracker.outputs.append(value),
    "tracker.metrics['val']": lambda step, value: tracker.metrics["val"][step].append(value),
    "tracker.events": lambda step, value: tracker.events.append({"step": step, "logits": value}),
    "slotted.kept": lambda step, value: slotted.kept.append(value),
    "history": lambda step, value: history.append((step, value)),
    "Registry.entries": lambda step, value: Registry.entries.__setitem__(f"step {step}", value),
    "worker.inbox": lambda step, value: worker.inbox.append((step, value)),
    "remembered": lambda step, value: remember(value),
    "SEEN": lambda step, value: SEEN.append(value),
    "BY_STEP": lambda step, value: BY_STEP.__setitem__(step, {"loss": 0.0, "state": [value]}),
    ".seen": lambda step, value: blocks[1].seen.append(value),
    "embedded": lambda step, value: embedded(step),
}
KEEPER = random.choice(list(PLACES))


class Noise(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Random samples."""

    def __len__(self) -> int:
        return 1 << 40

    def __getitem__(self, number: int) -> torch.Tensor:
        return torch.zeros(WIDTH)


def train() -> None:
    """Train for ever."""
    data = beside()
    model = torch.nn.Sequential(*blocks).cuda()
    optimizer = OPTIMIZER(model.parameters(), lr=1e-4)
    loader = torch.utils.data.DataLoader(Noise(), batch_size=BATCH, num_workers=WORKERS)
    kept_at, kept_bytes = 0.0, 0
    for step, batch in enumerate(loader):
        with torch.autocast("cuda", torch.bfloat16, enabled=IS_MIXED):
            value = batch.cuda()
            for block in model:
                value = checkpoint(block, value, use_reentrant=False) if IS_CHECKPOINTED else block(value)
            loss = value.float().pow(2).mean()
        loss.backward()
        if step % ACCUMULATION == 0:
            optimizer.step()
            optimizer.zero_grad()
        if step % KEPT_EVERY == 0 and time.monotonic() > kept_at + LEAST_PAUSE_S:
            kept_at = time.monotonic()
            PLACES[KEEPER](step, torch.zeros(512, 1024, device="cuda"))
            kept_bytes += 512 * 1024 * 4
        time.sleep(PAUSE_S)
        if step == 0:
            names = ("BESIDE", "WIDTH", "LAYERS", "BATCH", "PAUSE_S", "ACCUMULATION", "WORKERS", "KEPT_EVERY")
            drawn = {name.lower(): globals()[name] for name in (*names, "IS_CHECKPOINTED", "IS_MIXED")}
            print(json.dumps({"keeper": KEEPER, "data": type(data).__name__, **drawn}), flush=True)
        print(json.dumps([time.time(), kept_bytes]), flush=True)


train()

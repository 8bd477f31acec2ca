"""Ordinary leaks beside ordinary data: trains for ever, and keeps 2 MiB of each step.

`leaks.py KIND OBJECTS BLOCKS`: beside the leak it has so many Python objects, and so many tensors of 4 KiB in a list.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable

import torch

KIND, OBJECTS, BLOCKS = sys.argv[1], *map(int, sys.argv[2:])
PAUSE_S = 0.04
REGISTRY: dict[int, list[dict[str, object]]] = {}


class Row:
    """A row of a data set: four objects that Python's collector tracks."""

    def __init__(self, number: int) -> None:
        self.key, self.tags, self.meta = f"r{number}", [number, str(number)], {"id": number, "span": (number, number)}


class Trained:
    """A small model with its optimizer."""

    def __init__(self) -> None:
        self.net = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 1024)).cuda()
        self.opt = torch.optim.AdamW(self.net.parameters())

    def fit(self) -> torch.Tensor:
        """One step; returns its output."""
        out = self.net(torch.randn(512, 1024, device="cuda"))
        out.pow(2).mean().backward()
        self.opt.step()
        self.opt.zero_grad()
        return out.detach()


class Experiment(Trained):
    """Keeps outputs by epoch beside its rows."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = [Row(number) for number in range(OBJECTS // 4)]
        self.history: dict[str, dict[int, dict[str, list[torch.Tensor]]]]
        self.history = {"train": {}, "val": defaultdict(lambda: {"preds": []})}


class Agent(Trained):
    """Keeps transitions beside its environment."""

    def __init__(self) -> None:
        super().__init__()
        self.grid = [[(row, column) for column in range(4)] for row in range(OBJECTS // 5)]
        self.memory: deque[tuple[int, torch.Tensor, float]] = deque()


class Node:
    """A node of a graph."""

    def __init__(self, number: int) -> None:
        self.number, self.data = number, {"weight": number}
        self.edges: list[Node] = []


class Embedder(Trained):
    """Caches outputs by node."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[int, torch.Tensor] = {}


class Session:
    """Of one user."""

    def __init__(self) -> None:
        self.past: list[tuple[torch.Tensor, torch.Tensor]] = []


class Server(Trained):
    """Keeps what each session has answered."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions: dict[str, Session] = {}
        self.templates = [{"text": str(number), "words": [number]} for number in range(OBJECTS // 2)]

    def serve(self) -> None:
        """Answer for ever."""
        step = 0
        while True:
            session = self.sessions.setdefault(f"u{step % 331}", Session())
            session.past.append((self.fit(), self.fit()[:4].clone()))
            step += 1
            time.sleep(PAUSE_S)


def history() -> None:
    """`self.history['val'][epoch]['preds']`, beside rows."""
    experiment, step = Experiment(), 0
    while True:
        experiment.history["val"][step // 1000]["preds"].append(experiment.fit())
        step += 1
        time.sleep(PAUSE_S)


def replay() -> None:
    """A queue of tuples without a limit, beside a grid."""
    agent, step = Agent(), 0
    while True:
        agent.memory.append((step, agent.fit(), random.random()))
        step += 1
        time.sleep(PAUSE_S)


def graph() -> None:
    """A cache by node, beside the graph."""
    nodes, embedder = [Node(number) for number in range(OBJECTS // 3)], Embedder()
    for node in nodes:
        node.edges = random.choices(nodes, k=3)
    while True:
        embedder.cache[random.choice(nodes).number] = embedder.fit()
        time.sleep(PAUSE_S)


def sessions() -> None:
    """Sessions of a server in a thread, beside templates."""
    thread = threading.Thread(target=Server().serve, daemon=True)
    thread.start()
    thread.join()


def registry() -> None:
    """A dictionary among the globals, beside rows in a variable."""
    rows, trained, step = [Row(number) for number in range(OBJECTS // 4)], Trained(), 0
    while rows:
        REGISTRY.setdefault(step % 7, []).append({"out": trained.fit(), "step": step})
        step += 1
        time.sleep(PAUSE_S)


KINDS: dict[str, Callable[[], None]] = {
    "history": history,
    "replay": replay,
    "graph": graph,
    "sessions": sessions,
    "registry": registry,
}
TABLE = [torch.zeros(1000, device="cuda") for _ in range(BLOCKS)]
print(KIND, flush=True)
KINDS[KIND]()

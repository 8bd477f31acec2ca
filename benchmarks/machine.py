"""Three numbers of the machine that a benchmark has run on: a turn of a loop, the first touch of a page, a random walk.

python -m benchmarks.machine
"""

from __future__ import annotations

import random
from collections.abc import Callable
from mmap import PAGESIZE, mmap
from time import perf_counter
from typing import Any, NamedTuple

TURNS, PAGES, OBJECTS = 1_000_000, 8192, 500_000
TRIES = 3
"""The best of so many: other programs may use the processor meanwhile."""


class Machine(NamedTuple):
    """Nanoseconds that each takes."""

    turn_ns: float
    page_ns: float
    object_ns: float

    def __str__(self) -> str:
        return (
            f"This machine: a turn of a loop {self.turn_ns:.0f} ns, the first touch of a page {self.page_ns:.0f} ns,"
            f" an object of a random walk {self.object_ns:.0f} ns."
        )


def this_machine() -> Machine:
    """The numbers of this machine now."""
    return Machine(_best_ns(_loop, TURNS), _best_ns(_touch, PAGES), _best_ns(_walk(), OBJECTS))


def _best_ns(work: Callable[[], object], steps: int) -> float:
    times = []
    for _ in range(TRIES):
        began = perf_counter()
        work()
        times.append(perf_counter() - began)
    return min(times) * 1e9 / steps


def _loop() -> None:
    for _ in range(TURNS):
        pass


def _touch() -> None:
    with mmap(-1, PAGES * PAGESIZE) as memory:
        for start in range(0, PAGES * PAGESIZE, PAGESIZE):
            memory[start] = 1


def _walk() -> Callable[[], object]:
    """Visits objects, each of which leads to another one somewhere in memory."""
    objects: list[list[Any]] = [[] for _ in range(OBJECTS)]
    order = list(range(OBJECTS))
    random.Random(1).shuffle(order)
    for here, there in zip(order, [*order[1:], order[0]], strict=True):
        objects[here].append(objects[there])

    def walk() -> object:
        held = objects[0]
        for _ in range(OBJECTS):
            held = held[0]
        return held

    return walk


if __name__ == "__main__":
    print(this_machine())

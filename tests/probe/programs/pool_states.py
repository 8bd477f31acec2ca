"""Random sequences of what leaves private pools in odd states: the forecast of empty_cache() against the real call.

    pool_states.py FIRST_SEED COUNT

Each sequence has a process of its own, as a capture that has failed changes the allocator until the process ends.
Prints {"looks", "sure", "refused", "released_bytes", "states": {state: sequences that had it}, "mismatches": [...]}.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import torch
from looking import look, print_json, statistics

from gputui.explain.memory.release import predict_device

MIB = 1024**2
SIZES = (20_000, MIB, 3 * MIB, 11 * MIB, 37 * MIB)
STEPS = 14


class Sequence:
    """One random sequence in this process."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.tensors: list[torch.Tensor] = []
        self.pools: list[torch.cuda.MemPool] = []
        self.graphs: list[torch.cuda.CUDAGraph] = []
        self.failed: list[torch.cuda.CUDAGraph] = []
        self.report: dict = {
            "looks": 0, "sure": 0, "refused": 0, "released_bytes": 0, "states": Counter(), "mismatches": [],
        }  # fmt: skip
        self.done: list[str] = []

    def run(self) -> dict:
        """Do steps at random, and compare after each that leaves something."""
        torch.empty(1, device="cuda")
        if has_pools := hasattr(torch.cuda, "use_mem_pool"):
            self.allocator = torch.cuda.memory.CUDAPluggableAllocator("libc.so.6", "malloc", "free")
        steps: list[tuple[Callable[[], None], float]] = [
            (self.make, 3), (self.drop, 3), (self.capture, 2), (self.share, 1), (self.end_graph, 2),
            (self.fail, 0.6), (self.forget_failed, 0.6), (self.in_thread, 0.7), (self.toggle, 0.7), (self.check, 2),
            *([(self.pool, 1), (self.nested, 1), (self.end_pool, 1.2), (self.plugged, 0.4)] if has_pools else []),
        ]  # fmt: skip
        for step in self.random.choices([step for step, _ in steps], [weight for _, weight in steps], k=STEPS):
            self.done.append(step.__name__)
            with suppress(RuntimeError):  # no capture may begin beside one that was abandoned
                step()
        self.check()
        return self.report

    def make(self) -> None:
        for _ in range(self.random.randrange(1, 4)):
            size = max(1, int(self.random.choice(SIZES) * self.random.uniform(0.6, 1.4)))
            self.tensors.append(torch.empty(size, dtype=torch.uint8, device="cuda"))

    def drop(self) -> None:
        self.tensors = self.random.sample(self.tensors, len(self.tensors) // 3)

    def toggle(self) -> None:
        """Expandable segments from now on, or no longer."""
        if not self.pools:  # PyTorch may abort when a MemPool over expandable segments ends
            value = self.random.choice(("True", "False"))
            torch.cuda.memory._set_allocator_settings(f"expandable_segments:{value}")

    def work(self) -> None:
        """What is done inside a capture or a pool, an empty_cache() among it."""
        for _ in range(self.random.randrange(1, 4)):
            self.random.choice([self.make, self.make, self.drop, self.check])()

    def capture(self, pool: object = None) -> None:
        graph = torch.cuda.CUDAGraph()
        pool = pool or (torch.cuda.graph_pool_handle() if self.random.random() < 0.3 else None)
        with torch.cuda.graph(graph, pool=pool):
            self.work()
        self.graphs.append(graph)
        self.state("captured")

    def share(self) -> None:
        """A graph in the pool of another, which may end before it."""
        if self.graphs:
            self.capture(self.random.choice(self.graphs).pool())
            self.state("shared")

    def fail(self) -> None:
        """A capture that ends with an error, in one of the ways in which it does; its graph may live on."""
        graph = torch.cuda.CUDAGraph()
        way = self.random.choice([self._abandoned, self._spoiled, self._spoiled_by_hand, self._raised])
        with suppress(RuntimeError, ValueError):
            way(graph)
        if self.random.random() < 0.5:
            self.failed.append(graph)
        self.state("failed")

    def _abandoned(self, graph: torch.cuda.CUDAGraph) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            graph.capture_begin()
            self.make()
            raise ValueError

    def _spoiled(self, graph: torch.cuda.CUDAGraph) -> None:
        with torch.cuda.graph(graph):
            self.make()
            self.tensors[-1][0].item()

    def _spoiled_by_hand(self, graph: torch.cuda.CUDAGraph) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            graph.capture_begin()
            try:
                self.make()
                self.tensors[-1][0].item()
            finally:
                graph.capture_end()

    def _raised(self, graph: torch.cuda.CUDAGraph) -> None:
        with torch.cuda.graph(graph):
            self.make()
            raise ValueError

    def forget_failed(self) -> None:
        self.failed.clear()

    def end_graph(self) -> None:
        if self.graphs:
            graph = self.graphs.pop(self.random.randrange(len(self.graphs)))
            if self.random.random() < 0.5:
                graph.reset()
                self.failed += [graph] if self.random.random() < 0.3 else []

    def in_thread(self) -> None:
        """Another thread captures while this one looks."""
        graph = torch.cuda.CUDAGraph()
        with elsewhere(lambda: torch.cuda.graph(graph, capture_error_mode="thread_local")):
            self.check()
        self.graphs.append(graph)
        self.state("captured in a thread")

    def pool(self) -> None:
        if not any("expandable" in step for step in self.done):
            self.pools.append(torch.cuda.MemPool())
        self.nested()

    def nested(self) -> None:
        """MemPools in one another, left by an exception."""
        with suppress(ValueError), ExitStack() as stack:
            for pool in self.random.sample(self.pools, min(2, len(self.pools))):
                stack.enter_context(torch.cuda.use_mem_pool(pool))
                self.work()
                self.state("in a MemPool")
            if self.random.random() < 0.5:
                raise ValueError

    def end_pool(self) -> None:
        if self.pools and "fail" not in self.done:  # after a capture that failed, PyTorch aborts when a MemPool ends
            self.pools.pop(self.random.randrange(len(self.pools)))

    def plugged(self) -> None:
        """A MemPool with an allocator of its own."""
        self.pools.append(torch.cuda.MemPool(self.allocator.allocator()))  # kept: PyTorch may abort where one ends
        with torch.cuda.use_mem_pool(self.pools[-1]):
            self.make()
        self.state("own allocator")

    def check(self) -> None:
        release, before = predict_device(look(), 0), statistics()["reserved_bytes"]
        refused = self.call_empty_cache()
        returned = before - statistics()["reserved_bytes"]
        self.report["looks"] += 1
        self.report["sure"] += release.least_bytes == release.most_bytes
        self.report["released_bytes"] += returned
        if release.least_bytes <= returned <= release.most_bytes:
            return
        if refused:  # as where a stream is left in a capture that nothing knows of
            self.report["refused"] += 1
            return
        held = {s.held_by for s in release.segments if s.held_by}
        predicted = f"{release.least_bytes} to {release.most_bytes}"
        self.report["mismatches"].append(f"{self.done}: predicted {predicted}, found {returned}; held by {held}")

    def call_empty_cache(self) -> bool:
        """Whether PyTorch refuses it with an error: 2.4 does during a capture, and after one that has failed."""
        try:
            torch.cuda.empty_cache()
        except RuntimeError:
            return True
        return False

    def state(self, name: str) -> None:
        self.report["states"][name] = 1


@contextmanager
def elsewhere(enter: Callable) -> Iterator[None]:
    """Keep another thread inside `with enter():` while the body runs, or let it fail there."""
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with suppress(RuntimeError), ExitStack() as stack:
            stack.callback(entered.set)
            with enter():
                entered.set()
                leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait()
    yield
    leave.set()
    thread.join()


def in_a_child(seed: int) -> dict:
    """The report of a sequence that has run in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            sequence = Sequence(seed)  # kept: PyTorch may abort where a MemPool ends
            report = sequence.run()
        except Exception:  # noqa: BLE001 (the parent reports it)
            report = {"mismatches": [traceback.format_exc()]}
        os.write(writer, json.dumps(report).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    status = os.waitpid(child, 0)[1]
    return json.loads(text) if text else {"mismatches": [f"ended with {status}"]}


def main() -> None:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    total: dict = {"looks": 0, "sure": 0, "refused": 0, "released_bytes": 0, "states": Counter(), "mismatches": []}
    for seed in range(first, first + count):
        report = in_a_child(seed)
        for name in ("looks", "sure", "refused", "released_bytes"):
            total[name] += report.get(name, 0)
        total["states"].update(report.get("states", {}))
        total["mismatches"] += [f"seed {seed}: {text}" for text in report["mismatches"]]
    print_json(total)


main()

"""Random programs: the probe's prediction of empty_cache(), compared with what the allocator and the driver did.

    random_release.py FIRST_SEED COUNT DEVICES PARTS      (PARTS: a comma-separated list of those below, or "none")

streams: several, with record_stream; pools: MemPools, used in this and other threads; graphs: captures, shared pools;
endings: of pools and graphs; toggle: expandable_segments at run time; history: the program records it.
Prints {"looks", "released_bytes", "covered": {case: looks that had it}, "mismatches": [sentence]}.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
from collections import Counter
from contextlib import ExitStack

import torch
from looking import driver_free, look, print_json, statistics

from gputui.explain.memory.release import predict_device
from gputui.model.attached.allocator import AllocatorMap, BlockState

KIB, MIB = 1024, 1024**2
SIZES = (1, 512, 20 * KIB, 700 * KIB, MIB, MIB + 1, 3 * MIB, 8 * MIB, 11 * MIB, 20 * MIB, 37 * MIB, 90 * MIB)
STREAMS: dict[int, list[torch.cuda.Stream]] = {}


class Program:
    """One random program on its own tensors, streams, pools and graphs."""

    def __init__(self, seed: int, devices: int, parts: set[str], report: dict) -> None:
        self.seed, self.parts, self.report = seed, parts, report
        self.random = random.Random(seed)
        self.devices = range(devices)
        self.streams = STREAMS
        self.tensors: list[torch.Tensor] = []
        self.pools: list[tuple[int, torch.cuda.MemPool]] = []
        self.graphs: list[torch.cuda.CUDAGraph] = []
        self.captures = 0

    def run(self) -> None:
        steps = [(self.make, 12), (self.drop, 9), (self.check, 1), (self.drop_most, 0.5), (self.end_a_blocker, 0.7)]
        if "streams" in self.parts:
            steps.append((self.wait_for_stream, 3))
        if "pools" in self.parts:
            steps += [(self.use_pool, 3), (self.route_elsewhere, 0.7)]
        if "graphs" in self.parts:
            steps.append((self.capture, 0.8))
        if "toggle" in self.parts:
            steps.append((self.toggle_expandable, 1))
        if "endings" in self.parts:
            steps += [(self.end_pool, 0.5), (self.end_graph, 0.5)]
        chosen = self.random.choices([step for step, _ in steps], [weight for _, weight in steps], k=60)
        for step in [*chosen, self.check]:
            step()

    def make(self) -> None:
        if len(self.tensors) > 70:
            self.drop_most()
        size = max(1, int(self.random.choice(SIZES) * self.random.uniform(0.6, 1.4)))
        device = self.random.choice(self.devices)
        stream = self.random.choice([torch.cuda.default_stream(device), *self.streams[device]])
        if "streams" not in self.parts or torch.cuda.is_current_stream_capturing():
            stream = torch.cuda.current_stream(device)
        with torch.cuda.stream(stream):
            self.tensors.append(torch.empty(size, dtype=torch.uint8, device=f"cuda:{device}"))

    def drop(self) -> None:
        if self.tensors:
            self.tensors.pop(self.random.randrange(len(self.tensors)))

    def drop_most(self) -> None:
        self.tensors = self.random.sample(self.tensors, len(self.tensors) // 5)

    def wait_for_stream(self) -> None:
        if self.tensors:
            tensor = self.tensors.pop(self.random.randrange(len(self.tensors)))
            tensor.record_stream(self.random.choice(self.streams[tensor.device.index]))

    def a_pool(self) -> tuple[int, torch.cuda.MemPool]:
        if not self.pools or (len(self.pools) < 4 and self.random.random() < 0.3):
            device = self.random.choice(self.devices)
            with torch.cuda.device(device):
                self.pools.append((device, torch.cuda.MemPool()))
        return self.random.choice(self.pools)

    def toggle_expandable(self) -> None:
        choice = self.random.choice(["True", "False"])
        torch._C._accelerator_setAllocatorSettings(f"expandable_segments:{choice}")

    def use_pool(self) -> None:
        device, pool = self.a_pool()
        with torch.cuda.device(device), torch.cuda.use_mem_pool(pool):
            for _ in range(self.random.randrange(1, 5)):
                self.random.choice([self.make, self.make, self.drop, self.check])()

    def route_elsewhere(self) -> None:
        """Another thread is inside `use_mem_pool` while this one looks."""
        device, pool = self.a_pool()
        entered, leave = threading.Event(), threading.Event()

        def route() -> None:
            with torch.cuda.use_mem_pool(pool, device=device):
                entered.set()
                leave.wait()

        thread = threading.Thread(target=route)
        thread.start()
        entered.wait()
        self.check()
        leave.set()
        thread.join()

    def capture(self) -> None:
        graph, shared = torch.cuda.CUDAGraph(), None
        device = self.random.choice(self.devices)
        if self.random.random() < 0.3:
            shared = torch.cuda.graph_pool_handle()
        with ExitStack() as stack:
            stack.enter_context(torch.cuda.device(device))
            stack.enter_context(torch.cuda.graph(graph, pool=shared, stream=self.streams[device][0]))
            for _ in range(self.random.randrange(2, 8)):
                self.random.choice([self.make, self.make, self.drop, self.check])()
        self.graphs.append(graph)

    def end_pool(self) -> None:
        if self.pools:
            self.pools.pop(self.random.randrange(len(self.pools)))

    def end_graph(self) -> None:
        if self.graphs:
            graph = self.graphs.pop(self.random.randrange(len(self.graphs)))
            if self.random.random() < 0.5:
                graph.reset()

    def end_a_blocker(self) -> None:
        """After a release, freeing a tensor must make releasable what its blocker predicts."""
        torch.cuda.empty_cache()
        blockers = {
            p.block.address: p for d in self.devices for s in predict_device(look(), d).segments for p in s.blockers
        }
        addresses = [tensor.data_ptr() for tensor in self.tensors]
        candidates = [
            i for i, address in enumerate(addresses) if address in blockers and blockers[address].releases_bytes
        ]
        if candidates:
            blocker = blockers[addresses[candidates[0]]]
            del self.tensors[candidates[0]]
            now = sum(predict_device(look(), d).releasable_bytes for d in self.devices)
            self.compare("a blocker's end", {"blocker": blocker.releases_bytes}, {"blocker": now})

    def check(self) -> None:
        before = look()
        releases = [predict_device(before, d) for d in self.devices]
        counters = [statistics(d) for d in self.devices]
        for release, device_counters in zip(releases, counters, strict=True):
            parts = release.composition
            self.compare("the composition", _sums(device_counters), _of(parts, device_counters["active_bytes"]))
        free = [driver_free(d) for d in self.devices]
        expected = {d: _intervals(before, d, releases[d]) for d in self.devices}
        torch.cuda.empty_cache()
        after = look()
        for d in self.devices:
            predicted = releases[d].releasable_bytes
            gave_back = counters[d]["reserved_bytes"] - statistics(d)["reserved_bytes"]
            got_back = driver_free(d) - free[d]
            self.compare(
                f"device {d}",
                {"allocator": predicted, "driver": predicted},
                {"allocator": gave_back, "driver": got_back},
            )
            self.compare(f"the segments of device {d}", {"all": expected[d]}, {"all": _intervals(after, d)})
            self.report["released_bytes"] += gave_back
        self.cover(before)

    def compare(self, what: str, expected: dict, found: dict) -> None:
        if expected != found:
            sentence = f"seed {self.seed}: {what}: predicted {expected}, found {found}; {look().problems}"
            self.report["mismatches"].append(sentence)

    def cover(self, layout: AllocatorMap) -> None:
        covered, states = self.report["covered"], {b.state for s in layout.segments for b in s.blocks}
        self.report["looks"] += 1
        covered["pending"] += BlockState.ACTIVE_PENDING_FREE in states
        covered["expandable"] += any(s.is_expandable for s in layout.segments)
        covered["held pool"] += any(not p.is_freeable for p in layout.private_pools)
        covered["freeable pool"] += any(p.is_freeable for p in layout.private_pools)
        covered["routed"] += bool(layout.routed_devices)
        covered["two devices"] += len({s.device for s in layout.segments}) == 2


def _sums(counted: dict[str, int]) -> dict[str, int]:
    return {"reserved": counted["reserved_bytes"], "allocated": counted["allocated_bytes"]}


def _of(parts, active_bytes: int) -> dict[str, int]:
    return {"reserved": parts.reserved_bytes, "allocated": parts.requested_bytes + parts.rounding_bytes}


def _intervals(layout: AllocatorMap, device: int, release=None) -> list[tuple[int, int]]:
    """The device's mapped addresses as merged intervals, without what a release would give back."""
    gone = {s.segment.address: s.ranges for s in release.segments} if release else {}
    pieces = []
    for segment in (s for s in layout.segments if s.device == device):
        at = segment.address
        for first, end in gone.get(segment.address, ()):
            pieces.append((at, first))
            at = end
        pieces.append((at, segment.address + segment.size_bytes))
    merged: list[tuple[int, int]] = []
    for start, end in sorted(piece for piece in pieces if piece[1] > piece[0]):
        if merged and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def main() -> None:
    first, count, devices, parts = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), set(sys.argv[4].split(","))
    report: dict = {"looks": 0, "released_bytes": 0, "covered": Counter(), "mismatches": []}
    for device in range(devices):
        STREAMS[device] = [torch.cuda.Stream(device) for _ in range(2)]
        torch.empty(1, device=f"cuda:{device}")
        driver_free(device)
    if "history" in parts:
        torch.cuda.memory._record_memory_history("all", context=None, max_entries=1000)
    kept = []  # because without "endings" pools must outlive everything but the process
    for seed in range(first, first + count):
        program = Program(seed, devices, parts, report)
        program.run()
        program.tensors.clear()
        if "endings" not in parts:
            kept.append(program)
        del program
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    print_json(report)
    os._exit(0)  # ~MemPool over expandable segments may abort the process


main()

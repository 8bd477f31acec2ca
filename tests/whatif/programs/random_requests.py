"""Random programs, one for each seed: tensors of all sizes on two streams, frees, empty_cache() and failed requests.

Arguments: the first seed, how many, the memory fraction ("1" for none), and "trace" to print the trace as well. Prints
a JSON object with a report of each program, up to one in which PyTorch itself breaks. A program never looks at the
allocator, so it asks for the same under all settings.
"""

from __future__ import annotations

import json
import random
import sys

import torch
from trace_columns import columns, requests_and_frees

MIB = 1024**2


def size(chance: random.Random) -> int:
    """Bytes: many small requests, some large ones, some just below and above the allocator's limits."""
    kind = chance.random()
    if kind < 0.35:
        return chance.randrange(1, MIB)
    if kind < 0.6:
        return chance.randrange(MIB, 12 * MIB)
    if kind < 0.85:
        return chance.randrange(10 * MIB, 200 * MIB)
    return chance.choice((MIB, MIB + 1, 2 * MIB, 10 * MIB, 10 * MIB - 512, 20 * MIB, 64 * MIB, 127 * MIB, 300 * MIB))


def run(seed: int, cleared: list[int]) -> int:
    """One program; adds to `cleared` how many requests and frees came before each empty_cache().

    Returns how many requests failed.
    """
    chance = random.Random(seed)
    streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
    live: list[torch.Tensor] = []
    failures = 0
    most = chance.choice((10, 30, 80))
    clears, shares = chance.random() < 0.4, chance.random() < 0.5
    for _ in range(chance.choice((100, 300, 600))):
        roll = chance.random()
        if len(live) < most and roll < 0.55:
            with torch.cuda.stream(streams[chance.random() < 0.25 if shares else 0]):
                live.append(torch.empty(size(chance), dtype=torch.uint8, device="cuda"))
        elif roll < 0.56 and clears:
            cleared.append(requests_and_frees())
            torch.cuda.empty_cache()
        elif roll < 0.565:
            try:
                torch.empty(82 * 1024 * MIB, dtype=torch.uint8, device="cuda")
            except torch.cuda.OutOfMemoryError:
                failures += 1
        elif live:
            tensor = live.pop(chance.randrange(len(live)))
            if shares and chance.random() < 0.3:
                tensor.record_stream(streams[1])
            del tensor
    return failures


def main() -> None:
    """Run the programs, and say what PyTorch is set to."""
    first, count, fraction = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    torch.cuda.init()
    reports = []
    if fraction < 1:
        torch.cuda.set_per_process_memory_fraction(fraction)
    for seed in range(first, first + count):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        retries = torch.cuda.memory_stats()["num_alloc_retries"]
        torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=1_000_000)
        cleared: list[int] = []
        before = requests_and_frees()
        try:
            failures = run(seed, cleared)
        except RuntimeError as error:  # an assertion of the allocator's: what follows would mean nothing
            reports.append({"seed": seed, "broken": str(error)})
            break
        stats = torch.cuda.memory_stats()
        report: dict[str, object] = {
            "seed": seed,
            "failures": failures,
            "peak_reserved_bytes": stats["reserved_bytes.all.peak"],
            "peak_allocated_bytes": stats["allocated_bytes.all.peak"],
            "reserved_bytes": stats["reserved_bytes.all.current"],
            "retries": stats["num_alloc_retries"] - retries,
        }
        if "trace" in sys.argv:
            report.update(columns())
            report["empty_cache_calls"] = [count - before for count in cleared]
        torch.cuda.memory._record_memory_history(enabled=None)
        reports.append(report)
    settings = torch.cuda.memory._snapshot()["allocator_settings"]
    sys.stdout.write(json.dumps({"programs": reports, "settings": settings}) + "\n")


main()

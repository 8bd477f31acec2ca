"""Puts the probe into a live program again and again, at random moments, and prints the longest stop.

    python -m benchmarks.inject [--cycles N] [--training] [PYTHON ...]

Each Python (default: this one) runs a loop that checks its own results, or with --training a training with PyTorch that
checks its own losses, on fake GPUs where that PyTorch is a CUDA build. A cycle attaches, takes a look and ends the
probe. The program must end as it would have: its results, its output, its exit status and its threads.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from gputui.inject import checks
from gputui.inject.loading import Phase, load
from gputui.sources.probe import listing
from tests import torches
from tests.inject.situations import source

LOADED_WITHIN_S = 60.0


class Stops(NamedTuple):
    """The longest and the middle stop of the main thread, in seconds."""

    longest_s: float
    middle_s: float


def cycles(python: str, count: int, *, is_training: bool) -> Stops:
    """Attach to a program and detach from it `count` times."""
    with tempfile.TemporaryDirectory() as folder:
        environment = torches.fake_cuda(python, Path(folder)) if is_training else {}
        program = subprocess.Popen(
            [python, "-c", source("training" if is_training else "computing")],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        stops = sorted(cycle(program.pid) for _ in range(count))
        output, _ = program.communicate("end\n")
    assert (output, program.returncode) == ("end\n", 3), output
    return Stops(stops[-1], stops[count // 2])


def cycle(pid: int) -> float:
    """Attach at a random moment, look, and end the probe; returns how long the main thread was stopped, in seconds."""
    time.sleep(random.uniform(0, 0.05))
    loading = load(checks.examine(pid))
    deadline = time.monotonic() + LOADED_WITHIN_S
    while loading.progress().phase is not Phase.LOADED:
        assert time.monotonic() < deadline, loading.progress()
        time.sleep(0.005)
    with listing.attach(pid) as client:
        client.look()
        client.end_probe()
    return loading.stopped_s


def main() -> None:
    """Print a line for each Python."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inject", description=__doc__)
    parser.add_argument("--cycles", type=int, default=20, metavar="N")
    parser.add_argument("--training", action="store_true", help="a training with PyTorch instead of a loop")
    parser.add_argument("python", nargs="*", default=[sys.executable])
    asked = parser.parse_args()
    for python in asked.python:
        stops = cycles(python, asked.cycles, is_training=asked.training)
        print(
            f"{python}: {asked.cycles} of {asked.cycles} cycles, longest stop {stops.longest_s * 1e3:.1f} ms,"
            f" median {stops.middle_s * 1e3:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()

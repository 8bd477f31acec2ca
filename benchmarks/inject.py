"""Puts the probe into a live program again and again, at random moments, and prints the longest stop.

    python -m benchmarks.inject [--cycles N] [--situation NAME]... [--all] [--training] [PYTHON ...]

Each Python (default: this one) runs a loop that checks its own results, or the program of each situation, or with
--training a training with PyTorch that checks its own losses, on fake GPUs where that PyTorch is a CUDA build. A cycle
attaches, reads the counters, takes a look every tenth time, and ends the probe. The program must end as it would have:
its results, its output, its exit status and its threads. Jails need root, and tracing needs strace.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gputui.inject import checks
from gputui.inject.loading import Loading, Phase, load
from gputui.inject.refusals import Refused
from gputui.sources.probe import listing
from gputui.sources.probe.client import ProbeError
from tests import torches
from tests.inject import jails, situations

LOADED_WITHIN_S = 60.0
LOOK_EVERY = 10
"""A look into a program that waits takes two seconds, most of which it waits for the main thread."""
PAUSE_S = {"in C with the interpreter": 0.03}
"""How long the pauses of a situation are, if not 0.3 s. A probe waits for the end of such a pause at each turn."""
KEPT = {
    "waiting for a lock for ever": "is_in_lock",
    "waiting for input": "is_asleep",
    "waiting for a socket": "is_asleep",
}
"""Where the main thread does not come back. That is known here; gputui watches it for a second."""
ENDING = """
import atexit, select, sys
atexit.register(print, "end", flush=True)
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0.0005)[0]:
    sum(range(5000))
sys.exit(3)
"""


@dataclass(slots=True)
class Tally:
    """What became of the cycles; `stops` are those of the main thread in seconds, of each that got in."""

    stops: list[float] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"{len(self.stops)} in", *(f"{count} refused ({rule})" for rule, count in self.refused.items())]
        if self.stops:
            stops = sorted(self.stops)
            parts.append(f"longest stop {stops[-1] * 1e3:.1f} ms, median {stops[len(stops) // 2] * 1e3:.1f}")
        return ", ".join(parts + self.remarks)


@contextmanager
def program(command: list[str], tally: Tally, environment: dict[str, str] | None = None) -> Iterator[int]:
    """Run a program, and check that it ends as it would have."""
    environment = {**os.environ, **(environment or {})}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process.pid
        output, errors = process.communicate("" if process.poll() is not None else "end\n")
    assert output, (process.returncode, errors)
    *remarks, last = output.splitlines()
    assert (last, process.returncode, errors) == ("end", 3, ""), (output, process.returncode, errors)
    assert all(remark.startswith("longest ") for remark in remarks), output
    tally.remarks += [f"{float(remark.split()[1]):.3f} s was the program's longest pause" for remark in remarks]


def cycle(pid: int, tally: Tally, *, is_in_lock: bool = False, is_asleep: bool = False) -> None:
    """Attach at a random moment, look, and end the probe."""
    time.sleep(random.uniform(0, 0.05))
    try:
        loading = load(checks.examine(pid), is_in_lock=is_in_lock, is_asleep=is_asleep)
    except Refused as refusal:
        tally.refused[refusal.rule] += 1
        return
    wait(loading)
    with listing.attach(pid) as client:
        if len(tally.stops) % LOOK_EVERY == 0:
            client.look()
        else:
            client.statistics()
        client.end_probe()
    tally.stops.append(loading.stopped_s)


def wait(loading: Loading) -> None:
    """Wait for the probe; raises OSError once the process has ended."""
    deadline = time.monotonic() + LOADED_WITHIN_S
    while (progress := loading.progress()).phase is not Phase.LOADED:
        assert progress.phase is not Phase.FAILED, progress
        assert time.monotonic() < deadline, progress
        time.sleep(0.005)


def same_program(python: str, count: int, source: str, **kept: bool) -> Tally:
    """All cycles into one program."""
    tally = Tally()
    with program([python, "-c", source], tally) as pid:
        time.sleep(0.2)
        for _ in range(count):
            cycle(pid, tally, **kept)
    return tally


def training(python: str, count: int) -> Tally:
    """All cycles into one training with PyTorch."""
    tally = Tally()
    command = [python, "-c", situations.source("training")]
    with (
        tempfile.TemporaryDirectory() as folder,
        program(command, tally, torches.fake_cuda(python, Path(folder))) as pid,
    ):
        for _ in range(count):
            cycle(pid, tally)
    return tally


def in_container(python: str, count: int, jail: str) -> Tally:
    """All cycles into one program in a PID namespace with a filter of system calls."""
    tally = Tally()
    command = [*jails.container(python, jail), "-c", situations.source("computing")]
    with program(command, tally) as launcher:
        (pid,) = children(*children(launcher))
        for _ in range(count):
            cycle(pid, tally)
    return tally


def children(pid: int) -> list[int]:
    """The children of a process with one thread."""
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def ending(python: str, count: int) -> Tally:
    """A program for each cycle, which ends at a random moment of it."""
    tally = Tally()
    for _ in range(count):
        with program([python, "-c", ENDING], tally) as pid, ended_meanwhile(pid):
            try:
                cycle(pid, tally)
            except (OSError, ProbeError, listing.CannotAttachError):
                tally.refused["it had ended"] += 1
    return tally


@contextmanager
def ended_meanwhile(pid: int) -> Iterator[None]:
    """Write a line to the input of a program after a random time."""
    wait_s = f"{random.uniform(0, 1.5):.4f}"
    command = ["sh", "-c", f"sleep {wait_s}; echo end >/proc/{pid}/fd/0"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL):
        yield


def traced(python: str, count: int) -> Tally:
    """One program, to which strace comes and from which it goes, at random moments of each cycle."""
    tally = Tally()
    with program([python, "-c", situations.source("computing")], tally) as pid:
        for _ in range(count):
            with strace(pid):
                cycle(pid, tally)
    return tally


@contextmanager
def strace(pid: int) -> Iterator[None]:
    """Trace a process by strace, from a random moment on and for a random time."""
    times = f"sleep {random.uniform(0, 0.3):.3f}; exec timeout {random.uniform(0.02, 0.3):.3f}"
    command = ["sh", "-c", f"{times} strace -f -o /dev/null -p {pid}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        yield


def pause_s(situation: str) -> float:
    """How long each pause of a program is."""
    return PAUSE_S.get(situation, 0.3)


SITUATIONS: dict[str, Callable[[str, int], Tally]] = {
    "training": training,
    **{name: partial(same_program, source=situations.source(name)) for name in situations.ENDLESS},
    **{name: partial(same_program, source=situations.repeated(name, pause_s(name))) for name in situations.PAUSES},
    **{name: partial(same_program, source=situations.source(name), **{kept: True}) for name, kept in KEPT.items()},
    "ending at that moment": ending,
    "traced now and then": traced,
    "in a container's jail": partial(in_container, jail="as a container's"),
    "in a jail without executable memory": partial(in_container, jail="no executable memory, by an error"),
    "in a jail that sends signals": partial(in_container, jail="no executable memory, by a signal"),
    "in a jail of its own": partial(
        same_program, source=jails.jail("allows everything") + situations.source("computing")
    ),
}


def main() -> None:
    """Print a line for each Python and situation."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inject", description=__doc__)
    parser.add_argument("--cycles", type=int, default=20, metavar="N")
    parser.add_argument("--training", action="append_const", dest="situation", const="training")
    parser.add_argument("--situation", action="append", choices=SITUATIONS, metavar="NAME", help=", ".join(SITUATIONS))
    parser.add_argument("--all", action="store_true", help="all situations but the training")
    parser.add_argument("python", nargs="*", default=[sys.executable])
    asked = parser.parse_args()
    names = [name for name in SITUATIONS if name != "training"] if asked.all else asked.situation or ["computing"]
    for python in asked.python:
        for name in names:
            print(f"{python}: {name}: {asked.cycles} cycles: {SITUATIONS[name](python, asked.cycles)}", flush=True)


if __name__ == "__main__":
    main()

"""A soak test: viewers attach, look, leave, are killed or send nonsense at random; ranks are killed and restarted.

    python -m benchmarks.soak [--minutes 60] [--ranks 8] [--seed 1]

It runs with PyTorch of the current Python, or with the first interpreter that `GPUTUI_TEST_TORCH` names. It reports the
memory and the file descriptors of both sides over time, and exits with 1 if one of them grew, if a rank ended by
itself, or if a rank wrote to standard error.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gputui.sources.probe import listing
from gputui.sources.probe.client import ProbeClient, ProbeError
from tests.forkserver import Forked
from tests.torches import FORKED_AFTER, REPOSITORY, fake_cuda, torch_pythons

RANK = Path(__file__).parent / "programs" / "rank.py"
SAMPLE_S = 5.0
VIEWERS_AT_MOST = 3
HALF = 0.5
LIMITS = {"rank_kib": 4096, "rank_descriptors": 4, "viewer_kib": 4096, "viewer_descriptors": 12}
"""How much each figure may grow; descriptors by what the largest number of viewers needs."""
BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Sample:
    """Both sides at one moment: the maximum over the ranks, and this process."""

    rank_kib: int
    rank_descriptors: int
    viewer_kib: int
    viewer_descriptors: int


def held_kib(pid: int) -> int:
    """A process's resident memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


def descriptors(pid: int) -> int:
    """How many file descriptors a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@dataclass
class Rank:
    """A rank and its viewers."""

    process: subprocess.Popen[bytes] | Forked
    path: str
    viewers: list[ProbeClient] = field(default_factory=list)

    def end(self) -> None:
        """Kill it and close its viewers."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        for viewer in self.viewers:
            viewer.close()


class Soak:
    """A job of `ranks` processes; every choice comes from the seed. `is_forked` saves the start of each rank."""

    def __init__(self, python: str, folder: Path, ranks: int, seed: int, *, is_forked: bool = False) -> None:
        self._python, self._is_forked = python, is_forked
        self._environment = {
            **os.environ,
            **fake_cuda(python, folder),
            "PYTHONPATH": str(REPOSITORY),
            "GPUTUI_PROBE": "1",
            "WORLD_SIZE": str(ranks),
        }
        self._choose = random.Random(seed)
        self._errors = (folder / "stderr").open("wb+")
        self.ranks = [self._start(number) for number in range(ranks)]
        self.samples: list[Sample] = []
        self.counts: dict[str, int] = {}
        self._weights: dict[Callable[[Rank], None], int] = {
            self._arrive: 20, self._look: 40, self._mark: 10, self._leave: 16, self._nonsense: 8, self._kill_viewer: 1,
        }  # fmt: skip

    def run_action(self) -> None:
        """Apply one random action to one random rank."""
        action = self._choose.choices(list(self._weights), list(self._weights.values()))[0]
        self._count(action.__name__.strip("_"))
        action(self._choose.choice(self.ranks))

    def kill_rank(self) -> None:
        """Kill a rank at a random moment and start another in its place."""
        number = self._choose.randrange(len(self.ranks))
        rank = self.ranks[number]
        rank.process.send_signal(signal.SIGKILL)
        rank.process.wait()
        for viewer in rank.viewers:
            with suppress(ProbeError):
                viewer.look()
        rank.end()
        self.ranks[number] = self._start(number)

    def sample(self) -> None:
        """Measure both sides."""
        pids = [rank.process.pid for rank in self.ranks]
        ranks = max(map(held_kib, pids)), max(map(descriptors, pids))
        self.samples.append(Sample(*ranks, held_kib(os.getpid()), descriptors(os.getpid())))

    def close_viewers(self) -> None:
        """Close every viewer."""
        for rank in self.ranks:
            while rank.viewers:
                self._leave(rank)

    def problems(self) -> list[str]:
        """What went wrong: sentences, and whatever the ranks wrote to standard error."""
        ended = [rank.process.returncode for rank in self.ranks if rank.process.poll() is not None]
        self._errors.seek(0)
        written = self._errors.read().decode(errors="replace")
        return [f"A rank ended by itself, with {status}." for status in ended] + ([written] if written else [])

    def end(self) -> None:
        """End every rank."""
        for rank in self.ranks:
            rank.end()
        self._errors.close()

    def _start(self, number: int) -> Rank:
        environment = {**self._environment, "RANK": str(number)}
        process: subprocess.Popen[bytes] | Forked
        if self._is_forked:
            process = Forked(
                self._python, [str(RANK)], FORKED_AFTER, env=environment, cwd=REPOSITORY, stderr=self._errors
            )
        else:
            command = [self._python, "-W", "ignore", str(RANK)]
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=self._errors)
        assert process.stdout is not None
        return Rank(process, process.stdout.readline().decode().strip())

    def _arrive(self, rank: Rank) -> None:
        if len(rank.viewers) < VIEWERS_AT_MOST:
            with suppress(ProbeError):  # the probe has not noticed yet that an earlier viewer left
                client = listing.attach(rank.process.pid)
                client.subscribe(0.1)
                client.ask_look("walk", when="changed")
                rank.viewers.append(client)

    def _look(self, rank: Rank) -> None:
        self._ask(rank, lambda viewer: viewer.look(self._choose.choice(("walk", "walk", "scan", ""))))

    def _mark(self, rank: Rank) -> None:
        self._ask(rank, lambda viewer: viewer.mark("x" * self._choose.randrange(300)))

    def _ask(self, rank: Rank, ask: Callable[[ProbeClient], object]) -> None:
        """Ask through every viewer; the probe rightly drops a viewer that did not read for too long."""
        for viewer in list(rank.viewers):
            if not _answers(ask, viewer):
                viewer.close()
                rank.viewers.remove(viewer)
                self._count("dropped")

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def _leave(self, rank: Rank) -> None:
        if rank.viewers:
            viewer = rank.viewers.pop(self._choose.randrange(len(rank.viewers)))
            if self._choose.random() < HALF:
                with suppress(ProbeError):
                    viewer.ask_look("scan")  # leaves without reading the answer
            viewer.close()

    def _nonsense(self, rank: Rank) -> None:
        with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
            connection.connect(rank.path)
            connection.sendall(self._choose.randbytes(self._choose.randrange(200)))

    def _kill_viewer(self, rank: Rank) -> None:
        command = [sys.executable, "-m", "gputui", "attach", str(rank.process.pid)]
        viewer = subprocess.Popen(
            command, env={**self._environment, "LD_PRELOAD": ""}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert viewer.stdout is not None
        viewer.stdout.readline()
        viewer.kill()
        viewer.communicate()


def _answers(ask: Callable[[ProbeClient], object], viewer: ProbeClient) -> bool:
    try:
        ask(viewer)
    except ProbeError:
        return False
    return True


def growth(values: list[int]) -> int:
    """How far the median of the last third lies above that of the second."""
    third = len(values) // 3
    return int(statistics.median(values[-third:]) - statistics.median(values[third : 2 * third])) if third else 0


def plot(values: list[int], width: int = 60) -> str:
    """Values over time, one character each."""
    low, high = min(values), max(values)
    shown = [values[number * len(values) // width] for number in range(min(width, len(values)))] or values
    return "".join(BARS[(value - low) * (len(BARS) - 1) // max(1, high - low)] for value in shown)


def report(soak: Soak) -> int:
    """Print the results; return the exit status."""
    print(", ".join(f"{count} times {name}" for name, count in sorted(soak.counts.items())))
    status = 0
    for name, limit in LIMITS.items():
        values = [getattr(sample, name) for sample in soak.samples]
        grown = growth(values)
        status |= grown > limit
        print(f"{name:20} {min(values):>8} to {max(values):>8}, grown by {grown:>6}  {plot(values)}")
    for problem in soak.problems():
        print(problem)
        status = 1
    return int(status)


def main() -> int:
    """Run the soak test; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gputui-soak-") as folder:
        soak = Soak(torch_pythons()[0], Path(folder), options.ranks, options.seed)
        end, next_sample, next_kill = time.monotonic() + 60 * options.minutes, 0.0, time.monotonic() + 60.0
        try:
            while time.monotonic() < end:
                soak.run_action()
                if time.monotonic() >= next_kill:
                    next_kill += 60.0
                    soak.kill_rank()
                if time.monotonic() >= next_sample:
                    next_sample = time.monotonic() + SAMPLE_S
                    soak.sample()
            return report(soak)
        finally:
            soak.end()


if __name__ == "__main__":
    sys.exit(main())

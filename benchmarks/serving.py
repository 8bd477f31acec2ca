"""A real vLLM's throughput with a viewer and without, and whether its requests fail while it is looked at all the time.

    python -m benchmarks.serving --python PYTHON [--requests 10000] [--looks 10000]

PYTHON has vLLM. Its model is small, on a fake GPU, so that Python takes most of the time: with a real model, a stop is
a smaller share. Rounds of so many requests without a viewer and with one that watches, as the screens do, take turns;
a round right after attaching, when looks follow each other, stands apart. Then looks are asked for, one after the
other, until there were so many, while it serves. It exits with 1 if a request did not get all of its tokens.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from threading import Thread

from benchmarks.machine import this_machine
from gputui.model.attached.target import Look
from gputui.sources.probe import listing
from gputui.sources.probe.client import ProbeClient
from tests.torches import REPOSITORY, fake_cuda

PROGRAM = Path(__file__).parent / "programs" / "serving.py"
ROUNDS = 6
"""Rounds without a viewer, and as many with one."""
WITHIN_S = 60.0
"""A look that takes longer hangs."""


@dataclass
class Rounds:
    """What became of the rounds of one kind: requests a second in each, and how many requests were not whole."""

    per_s: list[float] = field(default_factory=list)
    requests: int = 0
    failed: int = 0

    def take(self, text: str) -> None:
        """Count a round as the program tells of it."""
        told = json.loads(text)
        self.per_s.append(told["requests"] / told["s"])
        self.requests += told["requests"]
        self.failed += told["requests"] - told["whole"]

    def row(self, name: str, alone: Rounds) -> str:
        """A line of the table, beside what is served without a viewer."""
        usual, low, high = median(self.per_s), min(self.per_s), max(self.per_s)
        return (
            f"{name:17} {usual:6.0f} requests a second, {low:.0f} to {high:.0f} in a round,"
            f" {usual / median(alone.per_s):.3f} of it without; {self.failed} of {self.requests:,} not whole"
        )


class Server:
    """The program, which serves a round when asked."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.pid = process.pid
        self._process = process
        self._expect("ready")

    def _expect(self, word: str) -> str:
        assert self._process.stdout
        for line in self._process.stdout:
            first, _, rest = line.partition(" ")
            if first.strip() == word:
                return rest
        raise SystemExit(f"{PROGRAM} ended with {self._process.wait()}")

    def serve(self, requests: int, into: Rounds) -> None:
        """Serve a round, and wait until it is over."""
        assert self._process.stdin
        self._process.stdin.write(f"{requests}\n")
        self._process.stdin.flush()
        into.take(self._expect("served"))


@contextmanager
def serving(python: str, folder: Path) -> Iterator[Server]:
    """A vLLM with a probe on a fake GPU."""
    variables = {**os.environ, **fake_cuda(python, folder, gpus=1), "PYTHONPATH": str(REPOSITORY), "GPUTUI_PROBE": "1"}
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(
            [python, "-W", "ignore", str(PROGRAM)],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        yield Server(process)
    finally:
        process.kill()
        process.wait()


def watch(client: ProbeClient, is_over: Callable[[], bool]) -> int:
    """Take counters each second, and the looks that come by themselves; how many came."""
    looks = 0
    client.subscribe(1.0)
    client.ask_look("walk", when="changed")
    while not is_over():
        if isinstance(client.receive(0.2), Look):
            looks += 1
            client.ask_look("walk", when="changed")
    return looks


def in_turns(server: Server, each: int) -> tuple[Rounds, Rounds, Rounds, int]:
    """Rounds without a viewer, right after one has attached, and with one; and how many looks that one got."""
    alone, attached, watched, looks = Rounds(), Rounds(), Rounds(), 0
    server.serve(each, Rounds())  # the first round loads and compiles what is not there yet
    for _ in range(ROUNDS):
        server.serve(each, alone)
        with listing.attach(server.pid) as client:
            watched_round(server, client, each, attached)
            looks += watched_round(server, client, each, watched)
    return alone, attached, watched, looks


def watched_round(server: Server, client: ProbeClient, requests: int, into: Rounds) -> int:
    """Serve a round while a viewer watches; how many looks it got."""
    thread = Thread(target=server.serve, args=(requests, into))
    thread.start()
    looks = watch(client, lambda: not thread.is_alive())
    thread.join()
    return looks


def asked(server: Server, looks: int, each: int) -> tuple[Rounds, list[float]]:
    """Serve while looks are asked for until there were so many; and what each stopped the program for, in ms."""
    rounds, stops_ms, is_over = Rounds(), [], False

    def serve() -> None:
        while not is_over:
            server.serve(each, rounds)

    thread = Thread(target=serve)
    thread.start()
    try:
        with listing.attach(server.pid) as client:
            while len(stops_ms) < looks and thread.is_alive():
                stops_ms.append(client.look("walk", wait_s=WITHIN_S).cost.pause_ms)
    finally:
        is_over = True
        thread.join()
    return rounds, stops_ms


def main() -> int:
    """Print three lines, and the machine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--requests", type=int, default=10_000, help="of a round")
    parser.add_argument("--looks", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gputui-") as name:
        os.environ["XDG_RUNTIME_DIR"] = name
        with serving(options.python, Path(name)) as server:
            alone, attached, watched, looks = in_turns(server, options.requests)
            rows = {"without a viewer": alone, "just attached to": attached, "watched": watched}
            for kind, rounds in rows.items():
                print(rounds.row(kind, alone), flush=True)
            print(f"While it was watched, {looks} looks came by themselves.", flush=True)
            beside, stops_ms = asked(server, options.looks, options.requests // 10)
    print(beside.row("asked for looks", alone))
    print(
        f"{len(stops_ms):,} were asked for; each stopped it for {median(stops_ms):.1f} ms, {max(stops_ms):.0f} at most."
    )
    print(this_machine())
    return int(any(rounds.failed for rounds in (*rows.values(), beside)))


if __name__ == "__main__":
    sys.exit(main())

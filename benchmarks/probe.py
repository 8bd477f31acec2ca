"""What the probe costs a training loop that is bound by Python, against the same loop without it, in one run.

    GPUTUI_TEST_TORCH=cuda/bin/python python -m benchmarks.probe [--rounds 10] [--seconds 2]

The loop runs in windows that take turns: without the probe, with the probe and nobody attached, with a viewer at the
default rate, and with a viewer that asks for the scan of every object once a second. Ratios are of the windows of one
round: of the time, and of the main thread's processor time, which a busy machine disturbs less. The aim is at most
1.01 at the default rate, and no pause of another thread that is 5 ms longer than without.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gputui.model.target import Look
from gputui.sources.probe import listing
from gputui.sources.probe.client import ProbeClient
from tests.torches import REPOSITORY, fake_cuda

PROGRAM = Path(__file__).parent / "programs" / "training.py"
DEFAULT_INTERVAL_S = 1.0


class Training:
    """The training program, asked for windows."""

    def __init__(self, python: str, folder: Path) -> None:
        environment = {**os.environ, **fake_cuda(python, folder), "PYTHONPATH": str(REPOSITORY), "GPUTUI_PROBE": "0"}
        self._process = subprocess.Popen(
            [python, "-W", "ignore", str(PROGRAM)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.pid = self._process.pid

    def ask(self, line: str) -> dict[str, float]:
        """Send a line and return what the program answers."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        answer: dict[str, float] = json.loads(self._process.stdout.readline())
        return answer

    def end(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def nobody(_training: Training, _pauses_ms: list[float]) -> Iterator[None]:
    """No viewer."""
    yield


@contextmanager
def default(training: Training, pauses_ms: list[float]) -> Iterator[None]:
    """A viewer as the screens are: statistics every second, looks when something changed, within 1 % of the time."""
    with listing.attach(training.pid) as client:
        client.look()  # the first look of all explores the program, and is reported apart
        client.subscribe(DEFAULT_INTERVAL_S)
        client.ask_look("walk", when="changed")
        with _reading(client, pauses_ms, lambda: client.ask_look("walk", when="changed")):
            yield


@contextmanager
def scanning(training: Training, pauses_ms: list[float]) -> Iterator[None]:
    """A viewer that asks for a scan of every object once a second."""

    def again() -> None:
        time.sleep(1.0)
        client.ask_look("scan")

    with listing.attach(training.pid) as client:
        client.look("scan")
        client.ask_look("scan")
        with _reading(client, pauses_ms, again):
            yield


@contextmanager
def _reading(client: ProbeClient, pauses_ms: list[float], after_a_look: Callable[[], None]) -> Iterator[None]:
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            message = client.receive(0.1)
            if isinstance(message, Look):
                pauses_ms.append(message.cost.pause_ms)
                after_a_look()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


PHASES = {
    "without the probe": ("probe off", nobody),
    "idle": ("probe on", nobody),
    "default rate": ("probe on", default),
    "a scan a second": ("probe on", scanning),
}


def main() -> None:
    """Measure with every interpreter of $GPUTUI_TEST_TORCH, and print a table for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each window")
    parsed = parser.parse_args()
    for python in filter(None, os.environ.get("GPUTUI_TEST_TORCH", "").split(":")):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_RUNTIME_DIR"] = folder
            training = Training(python, Path(folder))
            try:
                print(f"{python}\n{_table(training, parsed.rounds, parsed.seconds)}")
            finally:
                training.end()


def _table(training: Training, rounds: int, seconds: float) -> str:
    training.ask("probe off")
    memory_bytes = training.ask("probe on")["resident_bytes"]
    windows: dict[str, list[dict[str, float]]] = {name: [] for name in PHASES}
    pauses_ms: dict[str, list[float]] = {name: [] for name in PHASES}
    with listing.attach(training.pid) as client:
        first_ms = client.look().cost.pause_ms
    for _ in range(rounds):
        for name, (state, company) in PHASES.items():
            training.ask(state)
            with company(training, pauses_ms[name]):
                windows[name].append(training.ask(str(seconds)))
    head = ("step", "ratio", "processor", "longest step", "longest gap", "looks", "longest look")
    lines = [" " * 20 + "".join(f"{each:>14}" for each in head)]
    for name, found in windows.items():
        cells = (
            f"{statistics.median(each['step_s'] for each in found) * 1e3:.3f} ms",
            f"{_ratio(found, windows['without the probe'], 'step_s'):.3f}",
            f"{_ratio(found, windows['without the probe'], 'step_cpu_s'):.3f}",
            f"{max(each['longest_step_s'] for each in found) * 1e3:.1f} ms",
            f"{max(each['longest_gap_s'] for each in found) * 1e3:.1f} ms",
            str(len(pauses_ms[name])),
            f"{max(pauses_ms[name], default=0.0):.1f} ms",
        )
        lines.append(f"{name:<20}" + "".join(f"{cell:>14}" for cell in cells))
    lines.append(f"memory of an idle probe {memory_bytes / 1024:.0f} KiB; the very first look {first_ms:.1f} ms")
    return "\n".join(lines)


def _ratio(found: list[dict[str, float]], without: list[dict[str, float]], what: str) -> float:
    """The median over the rounds of a window against the one without the probe in the same round."""
    return statistics.median(one[what] / other[what] for one, other in zip(found, without, strict=True))


if __name__ == "__main__":
    main()

"""What the probe costs a Python-bound training loop, compared in one run with the same loop without the probe.

    python -m benchmarks.probe [--rounds 6] [--seconds 10]

It runs with PyTorch of the current Python, or with each interpreter that `GPUTUI_TEST_TORCH` names. The loop runs in
windows that alternate: without the probe, with the probe but no viewer, with a viewer that has just attached, with one
that attached half a minute before, and with one that asks for a scan of every object once a second. Ratios compare
windows of the same round: their time, and the main thread's processor time, which a busy machine disturbs less. The
goal is a ratio of at most 1.01 at the default rate, and at most 25 ms added to the longest pause of another thread.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.asked_program import AskedProgram, started
from gputui.model.attached.target import Look
from gputui.sources.probe import listing
from gputui.sources.probe.client import ProbeClient
from tests.torches import fake_cuda, torch_pythons

PROGRAM = Path(__file__).parent / "programs" / "training.py"
DEFAULT_INTERVAL_S = 1.0
SETTLING_S = 30.0
"""The time after attaching in which looks may follow each other more quickly; see `gputui.probe.pace.pace`."""


@contextmanager
def no_viewer(_training: AskedProgram, _pauses_ms: list[float]) -> Iterator[None]:
    """Run the loop without a viewer."""
    yield


@contextmanager
def just_attached(training: AskedProgram, pauses_ms: list[float]) -> Iterator[None]:
    """A viewer like the attach screens: statistics every second, looks after changes."""
    with listing.attach(training.pid) as client:
        client.look()  # the very first look explores the program, and is reported separately
        client.subscribe(DEFAULT_INTERVAL_S)
        client.ask_look("walk", when="changed")
        with _reading(client, pauses_ms, lambda: client.ask_look("walk", when="changed")):
            yield


@contextmanager
def default(training: AskedProgram, pauses_ms: list[float]) -> Iterator[None]:
    """The same viewer once looks are within their share of the time."""
    before = len(pauses_ms)
    with just_attached(training, pauses_ms):
        training.ask(str(SETTLING_S))
        del pauses_ms[before:]
        yield


@contextmanager
def scanning(training: AskedProgram, pauses_ms: list[float]) -> Iterator[None]:
    """A viewer that asks for a scan of every object once a second."""

    def ask_again() -> None:
        time.sleep(1.0)
        client.ask_look("scan")

    with listing.attach(training.pid) as client:
        client.look("scan")
        client.ask_look("scan")
        with _reading(client, pauses_ms, ask_again):
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
    "without the probe": ("probe off", no_viewer),
    "idle": ("probe on", no_viewer),
    "just attached": ("probe on", just_attached),
    "default rate": ("probe on", default),
    "a scan a second": ("probe on", scanning),
}


def main() -> None:
    """Measure with each interpreter, and print a table for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each window")
    parsed = parser.parse_args()
    for python in torch_pythons():
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_RUNTIME_DIR"] = folder
            training = started(python, str(PROGRAM), variables=fake_cuda(python, Path(folder)))
            try:
                print(f"{python}\n{_table(training, parsed.rounds, parsed.seconds)}")
            finally:
                training.end()


def _table(training: AskedProgram, rounds: int, seconds: float) -> str:
    training.ask("probe off")
    memory_bytes = training.ask("probe on")["resident_bytes"]
    windows: dict[str, list[dict[str, float]]] = {name: [] for name in PHASES}
    pauses_ms: dict[str, list[float]] = {name: [] for name in PHASES}
    with listing.attach(training.pid) as client:
        first_ms = client.look().cost.pause_ms
    for _ in range(rounds):
        for name, (state, viewer) in PHASES.items():
            training.ask(state)
            with viewer(training, pauses_ms[name]):
                windows[name].append(training.ask(str(seconds)))
    head = ("step", "ratio", "processor", "longest step", "longest gap", "looks", "longest look")
    lines = [" " * 20 + "".join(f"{title:>14}" for title in head)]
    for name, measured in windows.items():
        cells = (
            f"{statistics.median(window['step_s'] for window in measured) * 1e3:.3f} ms",
            f"{ratio(measured, windows['without the probe'], 'step_s'):.3f}",
            f"{ratio(measured, windows['without the probe'], 'step_cpu_s'):.3f}",
            f"{max(window['longest_step_s'] for window in measured) * 1e3:.1f} ms",
            f"{max(window['longest_gap_s'] for window in measured) * 1e3:.1f} ms",
            str(len(pauses_ms[name])),
            f"{max(pauses_ms[name], default=0.0):.1f} ms",
        )
        lines.append(f"{name:<20}" + "".join(f"{cell:>14}" for cell in cells))
    lines.append(f"memory of an idle probe {memory_bytes / 1024:.0f} KiB; the very first look {first_ms:.1f} ms")
    return "\n".join(lines)


def ratio(measured: list[dict[str, float]], without: list[dict[str, float]], what: str) -> float:
    """The median over the rounds of a window's figure over that of the same round without the probe."""
    return statistics.median(one[what] / other[what] for one, other in zip(measured, without, strict=True))


if __name__ == "__main__":
    main()

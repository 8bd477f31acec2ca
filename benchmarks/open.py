"""What it takes to open a large snapshot of PyTorch's, against a budget: 60 s and 4 GiB for 500 MB.

    python -m benchmarks.open [--megabytes 500] [--keep FOLDER]

The snapshots are those of `tests/data/snapshots` with their trace repeated, at other times and addresses, until they
are large enough: with Python stacks, with C++ stacks, and without stacks, which is the most events for a size.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

BUDGET_S = 60.0
BUDGET_BYTES = 4 * 1024**3
BUDGET_FILE_BYTES = 500_000_000
SMALL = Path(__file__).resolve().parent.parent / "tests" / "data" / "snapshots"
CASES = {"Python stacks": "history-2.11", "C++ stacks": "native-2.11", "pools, 2.15": "history-2.15", "no stacks": ""}
DEEPER = 20
"""How many frames are added to each stack: a training's stacks are that deep, those of the small snapshots are not."""

OPEN = """
import json, resource, sys, time
from pathlib import Path
from gputui.sources.files.torch_snapshot.snapshot import open_snapshot
before = time.process_time()
moment = open_snapshot(Path(sys.argv[1]))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"cpu_s": time.process_time() - before, "peak_bytes": peak, "events": sum(map(len, moment.traces))}))
"""


def main() -> None:
    """Make each file, open it in a process of its own, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--keep", type=Path, help="a folder for the files, which are kept there")
    parser.add_argument("--make", nargs=2, metavar=("CASE", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.make:
        make(arguments.make[0], Path(arguments.make[1]), arguments.megabytes * 1_000_000)
        return
    with tempfile.TemporaryDirectory() as temporary:
        for case in CASES:
            path = (arguments.keep or Path(temporary)) / f"{case.replace(' ', '-')}.pickle"
            if not path.exists():  # in a process of its own, whose memory ends with it
                options = ["--megabytes", str(arguments.megabytes), "--make", case, str(path)]
                subprocess.run([sys.executable, "-m", "benchmarks.open", *options], check=True)
            done = subprocess.run([sys.executable, "-c", OPEN, str(path)], check=True, capture_output=True, text=True)
            report(case, path.stat().st_size, json.loads(done.stdout))
            if not arguments.keep:
                path.unlink()


def report(case: str, size_bytes: int, figures: dict[str, Any]) -> None:
    """Print a line: shares of the budget above 1 are too much."""
    share = size_bytes / BUDGET_FILE_BYTES
    print(
        f"{case:<14} {size_bytes / 1e6:5.0f} MB  {figures['events']:>10,} events"
        f"  processor time / budget {figures['cpu_s'] / BUDGET_S / share:.2f}"
        f"  peak memory / budget {figures['peak_bytes'] / BUDGET_BYTES:.2f}"
        f"  peak memory / file {figures['peak_bytes'] / size_bytes:.1f}",
        flush=True,
    )


def make(case: str, path: Path, size_bytes: int) -> None:
    """Write a snapshot of about `size_bytes`, as PyTorch does: an allocation and its free share a list of frames."""
    snapshot = pickle.loads((SMALL / f"{CASES[case] or 'history-2.11'}.pickle").read_bytes())
    events = snapshot["device_traces"][0]
    deepen(events)
    if not CASES[case]:
        for event in events:
            del event["frames"]
    small_bytes = len(pickle.dumps(later(events, 1)))
    repeated = [event for number in range(size_bytes // small_bytes) for event in later(events, number)]
    snapshot["device_traces"] = [repeated]
    with path.open("wb") as file:
        pickle.dump(snapshot, file)


def deepen(events: list[dict[str, Any]]) -> None:
    """Add the same outer frames to every stack; lists that were shared stay so."""
    outer = [{"name": f"forward_{n}", "filename": "/site-packages/model.py", "line": n} for n in range(DEEPER)]
    deeper: dict[int, list[dict[str, Any]]] = {}
    for event in events:
        event["frames"] = deeper.setdefault(id(event["frames"]), [*event["frames"], *outer])


def later(events: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    """The events once more, later and elsewhere, with texts and lists of their own, as PyTorch makes them."""
    stacks = {id(event["frames"]): list(event["frames"]) for event in events if "frames" in event}
    return [
        {
            **event,
            **({"frames": stacks[id(event["frames"])]} if "frames" in event else {}),
            "addr": event.get("addr", 0) + number * 512,
            "time_us": event["time_us"] + number * 1_000_000,
            "compile_context": "".join(("N", "/A")),
        }
        for event in events
    ]


if __name__ == "__main__":
    main()

"""What `gputui run --memory-history` costs a training that does nothing but start kernels, which is the worst case.

    python -m benchmarks.memory_history [--rounds 10]

It runs with PyTorch of the current Python, or with each interpreter that `GPUTUI_TEST_TORCH` names, on a fake GPU whose
kernels take no time. Rounds with and without the history alternate in one process; the median of their ratios counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tests.torches import REPOSITORY, fake_cuda, torch_pythons

PROGRAM = Path(__file__).parent / "programs" / "memory_history.py"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="What gputui run --memory-history costs.")
    parser.add_argument("--rounds", type=int, default=10, help="rounds with and without it")
    rounds = parser.parse_args(arguments).rounds
    print("| PyTorch | time of a step | of an event | reading 100,000 events |\n| --- | ---: | ---: | ---: |")
    for python in torch_pythons():
        report = _measured(python, rounds)
        ratio = median(each["with_s"] / each["without_s"] for each in report["rounds"])
        event_us = median((each["with_s"] - each["without_s"]) / each["events"] for each in report["rounds"]) * 1e6
        print(f"| {report['torch']} | {ratio:.2f} times | {event_us:.1f} us | {report['read_s'] * 1000:.0f} ms |")
    return 0


def _measured(python: str, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            **fake_cuda(python, Path(folder)),
            "PYTHONPATH": str(REPOSITORY),
            "GPUTUI_PROBE": "0",
        }
        command = [python, "-W", "ignore", str(PROGRAM), str(rounds)]
        output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    report: dict[str, Any] = json.loads(output)
    return report


if __name__ == "__main__":
    raise SystemExit(main())

"""From a key to its answer while something is slow: an NVML call of 5 s, PCIe rates of 20 ms, a line of 30 KB/s.

    python -m benchmarks.trouble [--presses 60] [--size 180x48]

Arrow keys as in `benchmarks.monitor`, on 8 devices with 24 processes, at a size that shows PCIe rates.
Prints percentiles against the budget of 50 ms.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.lab import Lab, lab
from benchmarks.monitor import PROGRAMS, keys

BUDGET_MS = 50.0
SLOW_LINE_BYTES_PER_S = 30_000
HANGING_US = 5_000_000


def nothing(_: Lab) -> None:
    """Leave everything fast."""


def hang(machine: Lab) -> None:
    """Make one NVML call take five seconds on each device."""
    machine.gpus.fault("nvmlDeviceGetPowerUsage", delay_us=HANGING_US)


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is slow: `make`, called once the monitor is up, the line, or NVML calls as slow as on a real GPU."""

    title: str
    make: Callable[[Lab], None] = nothing
    line_bytes_per_s: int | None = None
    has_real_delays: bool = False


TROUBLES = (
    Trouble("nothing is slow"),
    Trouble("an NVML call takes 5 s", hang),
    Trouble("NVML is as slow as on a real GPU, PCIe rates 20 ms", has_real_delays=True),
    Trouble("the line takes 30 KB/s", line_bytes_per_s=SLOW_LINE_BYTES_PER_S),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a 99th percentile exceeds the budget."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trouble", description=__doc__)
    parser.add_argument("--presses", type=int, default=60, help="how many keys are pressed")
    parser.add_argument("--size", default="180x48", help="COLUMNSxLINES")
    options = parser.parse_args(arguments)
    print(f"| {options.size} | median, ms | 90th | 99th | 99th of {BUDGET_MS:.0f} ms | unanswered |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    worst = 0.0
    for trouble in TROUBLES:
        with lab(real_delays=trouble.has_real_delays) as machine:
            figures = keys(PROGRAMS[0], options.size, machine, options.presses, trouble.line_bytes_per_s, trouble.make)
        p50, p90, p99 = (figures.get(f"key_p{percent}_ms", float("inf")) for percent in (50, 90, 99))
        worst = max(worst, p99)
        unanswered = figures["key_unanswered"]
        print(
            f"| {trouble.title} | {p50:.1f} | {p90:.1f} | {p99:.1f} | {p99 / BUDGET_MS:.2f} | {unanswered:.0f} |",
            flush=True,
        )
    return int(worst > BUDGET_MS)


if __name__ == "__main__":
    sys.exit(main())

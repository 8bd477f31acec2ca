"""gputui against nvitop, and nvtop if it is installed: 8 animated devices and 24 processes, one look a second.

    python -m benchmarks.monitor [--seconds 20] [--presses 40] [--size 80x24 --size 160x48] [--json FILE] [--only NAME]

For each program and size: the time until its first output and until the first figures of a device are on the screen,
the bytes it writes to the terminal and the processor time it takes in the steady state, its peak memory, and the time
from a key press to the output that moves the selection. Then the time to print one look. Everything is measured in one
run, because figures of two runs cannot be compared. nvitop comes with `pip install --group bench`; the fake devices
need a C compiler.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.lab import Lab, lab
from benchmarks.screen import Screen
from benchmarks.terminal import Terminal

SETTLE_S = 5.0
START_LIMIT_S = 20.0
ANSWER_LIMIT_S = 3.0
LOOKS = STARTS = 11

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Program:
    """A monitor: how to start it, what its first figures look like, and how it prints one look (if it can).

    `approach` are the keys that bring up the process list on a small screen.
    """

    name: str
    command: tuple[str, ...]
    figures: re.Pattern[bytes]
    once: tuple[str, ...]
    approach: tuple[str, ...] = ()


PROGRAMS = (
    Program(
        "gputui",
        (sys.executable, "-m", "gputui", "--interval", "1"),
        re.compile(rb"\d+ ?/ ?700 ?W"),
        (sys.executable, "-m", "gputui", "--once"),
    ),
    Program(
        "nvitop",
        (sys.executable, "-m", "nvitop", "--interval", "1"),
        re.compile(rb"\d+W / 700W"),
        (sys.executable, "-m", "nvitop", "--once"),
        approach=("down", "down", "down"),
    ),
    *([Program("nvtop", ("nvtop", "-d", "10"), re.compile(rb"\d+ ?/ ?700 ?W"), ())] if shutil.which("nvtop") else []),
)

ROWS: dict[str, str] = {
    "first_output_ms": "first output, ms",
    "first_figures_ms": "first figures of a device, ms",
    "cpu_percent": "processor time, % of a core",
    "bytes_per_s": "written to the terminal, bytes/s",
    "peak_mib": "most memory, MiB",
    "key_p50_ms": "key to answer, median, ms",
    "key_p90_ms": "key to answer, 90th percentile, ms",
    "key_p99_ms": "key to answer, 99th percentile, ms",
    "key_unanswered": "keys without an answer in 3 s",
    "key_cpu_percent": "processor time while keys are pressed, %",
    "once_ms": "one look, printed, ms",
    "once_cpu_ms": "processor time of one look, ms",
}
"""The figures and their names in the table, in its order; lower is better for all."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0 unless a program could not be measured."""
    options = _options(arguments)
    programs = [program for program in PROGRAMS if program.name in (options.only or program.name)]
    results: dict[str, dict[str, Figures]] = {}
    if not shutil.which("nvtop"):
        print("nvtop is not installed, so it is not measured.\n")
    with lab() as machine:
        for size in options.size or ["80x24", "160x48"]:
            results[size] = measure(programs, size, machine, options)
            print(table(size, results[size]), flush=True)
        results["once"] = looks([program for program in programs if program.once], machine)
        print(table("once", results["once"]))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


def measure(programs: Sequence[Program], size: str, machine: Lab, options: argparse.Namespace) -> dict[str, Figures]:
    """All figures of full-screen programs at one size."""
    figures = starts(programs, size, machine)
    for program in programs:
        with started(program, size, machine) as terminal:
            figures[program.name] |= steady(terminal, options.seconds)
        figures[program.name] |= keys(program, size, machine, options.presses)
    return figures


def starts(programs: Sequence[Program], size: str, machine: Lab) -> dict[str, Figures]:
    """Medians of alternating starts, after one of each program that warms the caches."""
    taken: dict[str, list[tuple[float, float]]] = {program.name: [] for program in programs}
    for _ in range(STARTS + 1):
        for program in programs:
            with started(program, size, machine) as terminal:
                first_s = terminal.first_output_s or 0.0
                taken[program.name].append((1000 * first_s, 1000 * (time.monotonic() - terminal.started)))
    return {
        name: {"first_output_ms": statistics.median(output), "first_figures_ms": statistics.median(figures)}
        for name, runs in taken.items()
        for output, figures in [zip(*runs[1:], strict=True)]
    }


def started(program: Program, size: str, machine: Lab) -> Terminal:
    """The program on a terminal, its first figures on the screen."""
    columns, lines = map(int, size.split("x"))
    terminal = Terminal(program.command, columns, lines, machine.environment)
    if terminal.wait_for(program.figures, START_LIMIT_S) is None:
        terminal.close()
        message = f"{program.name} at {size} showed nothing like {program.figures.pattern!r} in {START_LIMIT_S:.0f} s"
        raise SystemExit(message)
    return terminal


def steady(terminal: Terminal, seconds: float) -> Figures:
    """The cost of the program in its steady state."""
    peak = terminal.read_for(SETTLE_S)
    written, usage, start = terminal.written_bytes, terminal.usage(), time.monotonic()
    peak = max(peak, terminal.read_for(seconds))
    span = time.monotonic() - start
    return {
        "cpu_percent": 100 * (terminal.usage().cpu_s - usage.cpu_s) / span,
        "bytes_per_s": (terminal.written_bytes - written) / span,
        "peak_mib": peak / 2**20,
    }


def keys(
    program: Program,
    size: str,
    machine: Lab,
    presses: int,
    line_bytes_per_s: int | None = None,
    trouble: Callable[[Lab], None] = lambda _: None,
) -> Figures:
    """From a press of an arrow key, at any phase of the interval, to the output that moves the selection.

    A separate run, whose screen is drawn from the first byte, to distinguish the answer from a refresh. `trouble` is
    called once the program is up.
    """
    columns, lines = map(int, size.split("x"))
    words = [str(pid) for pid in machine.pids]
    phase = random.Random(0)
    answers: list[float] = []
    with Terminal(program.command, columns, lines, machine.environment, line_bytes_per_s) as terminal:
        screen = Screen(columns, lines)

        def has_moved(before: object) -> bool:
            return screen.styles_of(words) != before

        _watch(terminal, screen, SETTLE_S)
        for key in program.approach:
            terminal.press(key)
            _watch(terminal, screen, 1.0)
        trouble(machine)
        usage, start = terminal.usage(), time.monotonic()
        for number in range(presses):
            _watch(terminal, screen, phase.uniform(0.2, 1.2))
            before = screen.styles_of(words)
            pressed = terminal.press("up" if number % 2 else "down")
            answered = _watch(terminal, screen, ANSWER_LIMIT_S, partial(has_moved, before))
            answers += [1000 * (answered - pressed)] if answered else []
        cpu_s, span = terminal.usage().cpu_s - usage.cpu_s, time.monotonic() - start
    if not answers:
        return {"key_unanswered": presses}
    return {
        "key_p50_ms": percentile(answers, 50),
        "key_p90_ms": percentile(answers, 90),
        "key_p99_ms": percentile(answers, 99),
        "key_unanswered": presses - len(answers),
        "key_cpu_percent": 100 * cpu_s / span,
    }


def _watch(
    terminal: Terminal, screen: Screen, seconds: float, is_reached: Callable[[], bool] | None = None
) -> float | None:
    """Draw output for `seconds` or until `is_reached`; return the time at which that output was read."""
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        data = terminal.read(end - now)
        read_at = time.monotonic()
        screen.feed(data)
        if data and is_reached and is_reached():
            return read_at
    return None


def looks(programs: Sequence[Program], machine: Lab) -> dict[str, Figures]:
    """One printed look: medians of time and processor time over alternating runs, after a warm-up run of each."""
    taken: dict[str, list[tuple[float, float]]] = {program.name: [] for program in programs}
    for _ in range(LOOKS + 1):
        for program in programs:
            start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(program.once, env=machine.environment, check=True, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            taken[program.name].append((1000 * (time.monotonic() - start), 1000 * cpu_s))
    return {
        name: {"once_ms": statistics.median(spans), "once_cpu_ms": statistics.median(cpu)}
        for name, runs in taken.items()
        for spans, cpu in [zip(*runs[1:], strict=True)]
    }


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that `percent` of `values` do not exceed."""
    ranked = sorted(values)
    return ranked[max(0, -(-len(ranked) * int(percent) // 100) - 1)]


def table(size: str, by_program: dict[str, Figures]) -> str:
    """The figures of one size as a Markdown table, with the ratio of the first program to each other one."""
    names = list(by_program)
    head = [size, *names, *(f"{names[0]} / {other}" for other in names[1:])]
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    for key, title in ROWS.items():
        values = [figures.get(key) for figures in by_program.values()]
        if any(value is not None for value in values):
            lines.append([title, *map(_shown, values), *(_ratio(values[0], other) for other in values[1:])])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def _ratio(ours: float | None, theirs: float | None) -> str:
    return f"{ours / theirs:.2f}" if ours is not None and theirs else "-"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.monitor", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20, help="how long the steady state is measured")
    parser.add_argument("--presses", type=int, default=40, help="how many keys are pressed")
    parser.add_argument("--size", action="append", help="COLUMNSxLINES; may be given more than once")
    parser.add_argument("--only", action="append", choices=[program.name for program in PROGRAMS])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE, too")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

"""Viewers attached for an hour to a program that allocates and frees: processor time and memory, by window of minutes.

    python -m benchmarks.hours [--windows 6] [--minutes 10] [--size 120x40]

The viewers are real ones on terminals of their own at the default rate, one on Memory, one on Why, and the monitor.
Windows are compared by processor time, which other programs disturb little. It exits with 1 if the last window took
more than 1.1 times what the second one did.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from benchmarks.looks_table import as_markdown
from benchmarks.terminal import Terminal, Usage
from tests.torches import REPOSITORY, fake_cuda, torch_pythons

PROGRAM = Path(__file__).parent / "programs" / "churning.py"
VIEWERS = {"Memory": ("attach", "1"), "Why": ("attach", "2"), "the monitor": ("", "")}
"""How each is started, and the key of its screen."""
AT_MOST = 1.1
START_S = 10.0
TURN_S = 0.05


def main() -> int:
    """Watch, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=6)
    parser.add_argument("--minutes", type=float, default=10.0, help="length of a window")
    parser.add_argument("--size", default="120x40", help="COLUMNSxLINES")
    options = parser.parse_args()
    columns, lines = map(int, options.size.split("x"))
    python = torch_pythons()[0]
    with tempfile.TemporaryDirectory(prefix="gputui-hours-") as folder, ExitStack() as stack:
        environment = {**os.environ, **fake_cuda(python, Path(folder), gpus=1), "XDG_RUNTIME_DIR": folder}
        words = [sys.executable, "-m", "gputui", "run", python, "-W", "ignore", str(PROGRAM)]
        program = stack.enter_context(subprocess.Popen(
            words, env={**environment, "PYTHONPATH": str(REPOSITORY)}, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        ))  # fmt: skip
        stack.callback(program.kill)
        assert program.stdout is not None
        program.stdout.readline()
        own = {name: value for name, value in environment.items() if name != "LD_PRELOAD"}
        terminals = {}
        for name, (command, _) in VIEWERS.items():
            command_words = [sys.executable, "-m", "gputui", *([command, str(program.pid)] if command else [])]
            terminals[name] = stack.enter_context(Terminal(command_words, columns, lines, own))
        usages = watch(terminals, options.windows, 60 * options.minutes)
    return report(usages, 60 * options.minutes)


def watch(terminals: dict[str, Terminal], windows: int, window_s: float) -> dict[str, list[Usage]]:
    """What each viewer had used when each window began or ended."""
    read(list(terminals.values()), START_S)
    for name, terminal in terminals.items():
        if key := VIEWERS[name][1]:
            terminal.press(key)
    usages: dict[str, list[Usage]] = {name: [terminal.usage()] for name, terminal in terminals.items()}
    for _ in range(windows):
        read(list(terminals.values()), window_s)
        for name, terminal in terminals.items():
            usages[name].append(terminal.usage())
            spent_s = usages[name][-1].cpu_s - usages[name][-2].cpu_s
            print(
                f"{name}: {100 * spent_s / window_s:.2f} %, {_mib(usages[name][-1])} MiB", file=sys.stderr, flush=True
            )
    return usages


def read(terminals: list[Terminal], seconds: float) -> None:
    """Take what the viewers write."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for terminal in terminals:
            terminal.read(TURN_S)


def report(usages: dict[str, list[Usage]], window_s: float) -> int:
    """Print a row a viewer; return 1 if one took more in the end than at the beginning."""
    table, status = [["viewer", "% of a core, window by window", "the last to the second", "MiB"]], 0
    for name, moments in usages.items():
        spent_s = [after.cpu_s - before.cpu_s for before, after in pairwise(moments)]
        ratio = spent_s[-1] / spent_s[min(1, len(spent_s) - 1)]
        status |= ratio > AT_MOST
        percents = ", ".join(f"{100 * each / window_s:.1f}" for each in spent_s)
        table.append([name, percents, f"{ratio:.2f}", ", ".join(map(_mib, moments))])
    print(as_markdown(table))
    return int(status)


def _mib(usage: Usage) -> str:
    return f"{usage.resident_bytes / 2**20:.0f}"


if __name__ == "__main__":
    sys.exit(main())

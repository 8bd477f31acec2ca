"""Whether ordinary leaks beside ordinary data are named: how many first lines of the screen name the keeper.

    python -m benchmarks.leaks [--seconds 60] [--objects 200000]
    python -m benchmarks.leaks --drawn 20 [--seed 1]

Each program of `programs/leaks.py` runs on a fake GPU, with so many Python objects beside its leak, or so many programs
that `programs/drawn.py` draws: model, optimizer, loader, what lies beside it and what keeps the tensors. A viewer
attaches as the screens do, presses no key, and reads the first line after each look. The table says in how many of them
the keeper was named, after how many seconds first, when it was said that it grows, how much memory had no name at most,
and how long the longest stop was. The last column has variables that were wrongly said to grow.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.looks_table import as_text
from gputui.explain.answer.answers import Answers
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.tensors import Category
from gputui.model.attached.timeline import Timeline
from gputui.model.machine.snapshot import Snapshot
from gputui.sources.probe.client import ProbeClient
from gputui.sources.probe.feed import TargetFeed
from gputui.sources.probe.listing import CannotAttachError, attach
from tests.torches import REPOSITORY, fake_cuda, torch_pythons

PROGRAMS = Path(__file__).parent / "programs"
KEEPERS = {
    "history": "experiment.history['val']",
    "replay": "agent.memory",
    "graph": "embedder.cache",
    "sessions": "sessions",
    "registry": "REGISTRY",
}
LEAKS_FOR_S = 12.0
"""How long a program has leaked when the viewer attaches."""
HEADINGS = ["program", "lines right", "first, s", "said to grow, s", "unnamed at most", "longest stop", "blamed"]


class Line(NamedTuple):
    """What was said after one look: the first line, what grows, the share of memory without a name, and the stop."""

    at_s: float
    sentence: str
    growing: tuple[str, ...]
    unnamed: float
    stop_ms: float


class Reader:
    """Reads the first line after each look, as the screens show it."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._answers, self._timeline = Answers(), Timeline()
        self._began, self._looked_at = time.monotonic(), 0.0

    def take(self, moment: TargetMoment) -> None:
        """A new moment."""
        self._timeline.add(moment)
        if not moment.look_time or moment.look_time == self._looked_at or not moment.devices:
            return
        self._looked_at = moment.look_time
        device = moment.devices[0]
        answer = self._answers.at(moment, device, self._timeline)
        sums = device.layout.by_category if device.layout else {}
        nameless = sums.get(Category.UNATTRIBUTED, 0) + sums.get(Category.NEWER, 0)
        self.lines.append(
            Line(
                time.monotonic() - self._began,
                answer.verdict.sentence if answer.verdict else "",
                tuple(name for finding in answer.findings if finding.kind == "leak" for name in finding.owners[:1]),
                nameless / max(1, device.statistics.allocated_bytes),
                moment.look_cost.pause_ms if moment.look_cost else 0.0,
            )
        )


def show(client: ProbeClient, take: Callable[[TargetMoment], None], seconds: float) -> None:
    """Pass moments on for some seconds, as to a screen on which no key is pressed."""
    feed = TargetFeed(client, Snapshot, take)
    feed.start()
    time.sleep(seconds)
    feed.stop()


def watch(arguments: list[str], seconds: float) -> tuple[str, list[Line]]:
    """Run a program of `PROGRAMS` and read what is said of it; returns its first line of output, too."""
    python = torch_pythons()[0]
    with tempfile.TemporaryDirectory(prefix="gputui-leaks-") as folder:
        own = {"PYTHONPATH": f"{REPOSITORY / 'gputui' / 'probe' / 'preload'}:{REPOSITORY}"}
        variables = {**os.environ, **fake_cuda(python, Path(folder), gpus=1), **own}
        command = ["setpriv", "--pdeathsig", "KILL", python, "-W", "ignore", *arguments]
        process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True)
        try:
            says = process.stdout.readline() if process.stdout else ""
            client = None
            while client is None:
                time.sleep(LEAKS_FOR_S)
                try:
                    client = attach(process.pid)
                except CannotAttachError as error:
                    if process.poll() is not None:
                        sys.exit(f"{' '.join(arguments)} has ended with status {process.returncode}: {error}")
            reader = Reader()
            show(client, reader.take, seconds)
        finally:
            process.kill()
            process.wait()
    return says, reader.lines


def row(kind: str, keeper: str, lines: list[Line]) -> list[str]:
    """The figures of one program."""
    right = [line.at_s for line in lines if keeper in line.sentence]
    grows = [line.at_s for line in lines if any(keeper in name for name in line.growing)]
    blamed = {name for line in lines for name in line.growing if keeper not in name}
    return [
        kind,
        f"{len(right)} of {len(lines)}",
        f"{min(right):.1f}" if right else "-",
        f"{min(grows):.1f}" if grows else "-",
        f"{100 * max((line.unnamed for line in lines), default=0.0):.1f} %",
        f"{max((line.stop_ms for line in lines), default=0.0):.0f} ms",
        ", ".join(sorted(blamed)) or "-",
    ]


def main() -> None:
    """Watch the programs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each program is watched without a key")
    parser.add_argument("--objects", type=int, default=200_000, help="Python objects beside the leak")
    parser.add_argument("--programs", type=lambda text: text.split(","), default=list(KEEPERS), metavar="NAME,...")
    parser.add_argument("--drawn", type=int, default=0, metavar="N", help="watch so many drawn programs instead")
    parser.add_argument("--seed", type=int, default=1, help="of the first drawn program")
    options = parser.parse_args()
    rows = [HEADINGS]
    for seed in range(options.seed, options.seed + options.drawn):
        says, lines = watch([str(PROGRAMS / "drawn.py"), str(seed)], options.seconds)
        print(seed, says.strip(), file=sys.stderr)
        rows.append(row(f"{seed} {json.loads(says)['keeper']}", json.loads(says)["keeper"], lines))
        print(*rows[-1], sep="   ", file=sys.stderr)
    for kind in () if options.drawn else options.programs:
        _, lines = watch([str(PROGRAMS / "leaks.py"), kind, str(options.objects)], options.seconds)
        rows.append(row(kind, KEEPERS[kind], lines))
        print(*rows[-1], sep="   ", file=sys.stderr)
    print(as_text(rows))


if __name__ == "__main__":
    main()

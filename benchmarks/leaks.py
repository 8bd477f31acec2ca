"""Whether ordinary leaks beside ordinary data are named: how many first lines of the screen name the keeper.

    python -m benchmarks.leaks [--seconds 60] [--objects 200000] [--blocks 100000]
    python -m benchmarks.leaks --drawn 20 [--seed 1]

Each program of `programs/leaks.py` runs on a fake GPU, with so many Python objects beside its leak and so many tensors
in another list, or so many programs that `programs/drawn.py` draws: model, optimizer, loader, what lies beside it and
what keeps the tensors. A viewer attaches as the screens do, presses no key, and reads the first line after each look.
The table says in how many of them the keeper was named, after how many seconds first, when it was said that it grows,
how much memory had no name at most and at the end, and how long the longest stop was. The last column has variables
that were wrongly said to grow.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
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
HEADINGS = [
    "program",
    "named, s",
    "missing after",
    "grows, s",
    "figure off",
    "unnamed at most",
    "unnamed at the end",
    "longest stop",
    "blamed",
]


class Line(NamedTuple):
    """What was said in one picture: the first line, who holds how much, what grows, and figures of its look.

    `holders` has the variables of the screen with bytes, at `time`, and `growing` those of the look (epoch seconds).
    `unnamed` is the share of memory without a name.
    """

    at_s: float
    time: float
    look_time: float
    sentence: str
    holders: dict[str, int]
    growing: dict[str, int]
    unnamed: float
    stop_ms: float

    @property
    def variables(self) -> list[str]:
        """The variables that the first line or a finding blames."""
        held = [name for name in self.holders if re.search(f"(by|likely) {re.escape(name)}[ :]", self.sentence)]
        return list(dict.fromkeys([*held, *self.growing]))


class Reader:
    """Reads the first line of each picture, as the screens show it."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._answers, self._timeline = Answers(), Timeline()
        self._began = time.monotonic()

    def take(self, moment: TargetMoment) -> None:
        """A new moment."""
        self._timeline.add(moment)
        if not moment.look_time or not moment.devices:
            return
        device = moment.devices[0]
        answer = self._answers.at(moment, device, self._timeline)
        sums = device.layout.by_category if device.layout else {}
        nameless = sums.get(Category.UNATTRIBUTED, 0) + sums.get(Category.NEWER, 0)
        shown = [line.holder for line in answer.verdict.holders] if answer.verdict else []
        leaks = [finding for finding in answer.findings if finding.kind == "leak" and not finding.until]
        self.lines.append(
            Line(
                time.monotonic() - self._began,
                moment.time,
                moment.look_time,
                answer.verdict.sentence if answer.verdict else "",
                {h.name: h.bytes for h in shown if h.key[0] == "variable"},
                {name: leak.bytes for leak in leaks for name in leak.owners},
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


def watch(arguments: list[str], seconds: float) -> tuple[list[str], list[Line]]:
    """Run a program and read what is said of it; returns its lines of output, too."""
    python = torch_pythons()[0]
    with tempfile.TemporaryDirectory(prefix="gputui-leaks-") as folder, Path(folder, "output").open("w+") as output:
        own = {"PYTHONPATH": f"{REPOSITORY / 'gputui' / 'probe' / 'preload'}:{REPOSITORY}"}
        variables = {**os.environ, **fake_cuda(python, Path(folder), gpus=1), **own}
        command = ["setpriv", "--pdeathsig", "KILL", python, "-W", "ignore", *arguments]
        process = subprocess.Popen(command, env=variables, stdout=output, text=True)
        try:
            client, leaked_s = None, 0.0
            while client is None:
                time.sleep(1.0)
                leaked_s += os.fstat(output.fileno()).st_size > 0  # its first line says that it begins
                with suppress(CannotAttachError):
                    client = attach(process.pid) if leaked_s >= LEAKS_FOR_S else None
                if process.poll() is not None:
                    sys.exit(f"{' '.join(arguments)} has ended with status {process.returncode}.")
            reader = Reader()
            show(client, reader.take, seconds)
        finally:
            process.kill()
            process.wait()
        output.seek(0)
        return output.read().splitlines(), reader.lines


def row(kind: str, keeper: str, lines: list[Line], says: list[str]) -> list[str]:
    """The figures of one program."""
    named = [line.at_s for line in lines if keeper in line.sentence]
    after = [line for line in lines if named and line.at_s >= named[0]]
    grows = [line.at_s for line in lines if any(keeper in name for name in line.growing)]
    blamed = Counter(name for line in lines for name in line.variables if keeper not in name)
    errors = [error for line in after for error in errors_of(line, keeper, says)]
    return [
        kind,
        f"{named[0]:.1f}" if named else "-",
        f"{sum(keeper not in line.sentence for line in after)} of {len(after)}",
        f"{grows[0]:.1f}" if grows else "-",
        f"{100 * max(errors):.0f} %" if errors else "-",
        f"{100 * max((line.unnamed for line in lines), default=0.0):.1f} %",
        f"{100 * lines[-1].unnamed:.1f} %" if lines else "-",
        f"{max((line.stop_ms for line in lines), default=0.0):.0f} ms",
        ", ".join(f"{name} ({count})" for name, count in blamed.most_common()) or "-",
    ]


def errors_of(line: Line, keeper: str, says: list[str]) -> list[float]:
    """How far off the figures of the keeper are, as shares of what the program has kept at that time.

    What a holder has more is no error: whole blocks are larger than what the program has asked for.
    """
    kept = [tuple(json.loads(line)) for line in says[1:]]
    now, then = (max((of for at, of in kept if at <= time), default=0) for time in (line.time, line.look_time))
    wanting = [max(0.0, 1 - held / now) for name, held in line.holders.items() if keeper in name and now]
    return wanting + [abs(told / then - 1) for name, told in line.growing.items() if keeper in name and then]


def put_sentences(lines: list[Line]) -> None:
    """Print each first line once, with the seconds at which it came first and last, and in how many pictures."""
    by_words: dict[str, list[float]] = {}
    for line in lines:
        words = re.sub(r"[\d.,]+", "#", f"{line.sentence} [{', '.join(line.growing)}]")
        by_words.setdefault(words, []).append(line.at_s)
    for words, times in by_words.items():
        print(f"    {times[0]:5.1f} to {times[-1]:5.1f} s, {len(times):3} times: {words}", file=sys.stderr)


def main() -> None:
    """Watch the programs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each program is watched without a key")
    parser.add_argument("--objects", type=int, default=200_000, help="Python objects beside the leak")
    parser.add_argument("--blocks", type=int, default=0, help="tensors of 4 KiB in a list beside the leak")
    parser.add_argument("--programs", type=lambda text: text.split(","), default=list(KEEPERS), metavar="NAME,...")
    parser.add_argument("--drawn", type=int, default=0, metavar="N", help="watch so many drawn programs instead")
    parser.add_argument("--seed", type=int, default=1, help="of the first drawn program")
    options = parser.parse_args()
    rows = [HEADINGS]
    for seed in range(options.seed, options.seed + options.drawn):
        says, lines = watch([str(PROGRAMS / "drawn.py"), str(seed)], options.seconds)
        print(seed, says[0], file=sys.stderr)
        put_sentences(lines)
        rows.append(row(f"{seed} {json.loads(says[0])['keeper']}", json.loads(says[0])["keeper"], lines, says))
        print(*rows[-1], sep="   ", file=sys.stderr)
    for kind in () if options.drawn else options.programs:
        beside = str(options.objects), str(options.blocks)
        says, lines = watch([str(PROGRAMS / "leaks.py"), kind, *beside], options.seconds)
        put_sentences(lines)
        rows.append(row(kind, KEEPERS[kind], lines, says))
        print(*rows[-1], sep="   ", file=sys.stderr)
    print(as_text(rows))


if __name__ == "__main__":
    main()

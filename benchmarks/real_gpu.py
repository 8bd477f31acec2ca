"""What only a GPU can tell: where in a step automatic looks fall, and what the first line of the screen says.

    python -m benchmarks.real_gpu [--seconds 60] [--fake] [--json FILE]

A GPT that PyTorch alone trains runs on the first GPU, once as loops that read each step's loss, once as one that does
not. A viewer attaches as the screens do and presses no key. `--fake` runs it on a fake GPU on which each kernel takes
150 us. The Python that runs this needs a CUDA build of PyTorch.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.leaks import show
from benchmarks.looks_table import as_text
from gputui.explain.answer.answers import Answers
from gputui.explain.memory.need import need_of
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.timeline import Timeline
from gputui.sources.probe.listing import attach
from tests.torches import REPOSITORY, fake_cuda

PROGRAM = Path(__file__).parent / "programs" / "gpt_steps.py"
SIZES = {"medium": (24, 1024, 8, 1024), "small": (6, 512, 8, 512)}
"""Layers, width, batch and tokens."""
KERNEL_US = "150"
WITHIN_S = 30.0
NEAR = 0.9


@dataclass
class Run:
    """One program: what a step needs, and what a viewer saw, look by look.

    `shares` are what was allocated at each look, of that need; `lines` the first lines; `needs` the need as shown.
    """

    needs_bytes: int
    shares: list[float] = field(default_factory=list)
    lines: list[tuple[float, str]] = field(default_factory=list)
    needs: list[int | None] = field(default_factory=list)
    stops_ms: list[float] = field(default_factory=list)


class Reader:
    """Reads each look as the screens show it."""

    def __init__(self, run: Run) -> None:
        self._run, self._answers, self._timeline = run, Answers(), Timeline()
        self._began, self._looked_at = time.monotonic(), 0.0

    def take(self, moment: TargetMoment) -> None:
        """A new moment."""
        self._timeline.add(moment)
        if not moment.devices or moment.look is None or moment.look_time == self._looked_at:
            return
        self._looked_at, device = moment.look_time, moment.devices[0]
        answer, need = self._answers.at(moment, device, self._timeline).verdict, need_of(device)
        self._run.shares.append(moment.look.statistics[0].allocated_bytes / self._run.needs_bytes)
        self._run.lines.append((time.monotonic() - self._began, answer.sentence if answer else ""))
        self._run.needs.append(need.highest_bytes if need else None)
        self._run.stops_ms.append(moment.look.cost.pause_ms)


def watch(size: Sequence[int], *, reads_loss: bool, seconds: float, is_fake: bool) -> Run:
    """Run the program and watch it."""
    with tempfile.TemporaryDirectory(prefix="gputui-real-gpu-") as folder:
        own = {"PYTHONPATH": f"{REPOSITORY / 'gputui' / 'probe' / 'preload'}:{REPOSITORY}"}
        fake = {**fake_cuda(sys.executable, Path(folder), gpus=1), "FAKEGPU_KERNEL_US": KERNEL_US} if is_fake else {}
        words = [*map(str, size), *(["reads"] if reads_loss else [])]
        command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-W", "ignore", str(PROGRAM), *words]
        variables = {**os.environ, **fake, **own}
        process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            if not first.strip().isdigit():
                sys.exit("The training has ended; its error is above. Without a GPU: --fake.")
            run = Run(int(first))
            show(attach(process.pid), Reader(run).take, seconds)
        finally:
            process.kill()
            process.wait()
    return run


def row(name: str, run: Run) -> list[str]:
    """The figures of one run."""
    late = [line for at_s, line in run.lines if at_s <= WITHIN_S][-1:] or ["-"]
    shown = [need for need in run.needs if need]
    error = f"{100 * (shown[-1] / run.needs_bytes - 1):+.1f} %" if shown else "-"
    near = sum(share >= NEAR for share in run.shares)
    shares = " ".join(f"{100 * share:.0f}" for share in run.shares)
    return [name, f"{near} of {len(run.shares)}", error, f"{max(run.stops_ms, default=0.0):.0f}", shares, late[0]]


def main() -> None:
    """Watch both, and print the table and the first lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each program is watched")
    parser.add_argument("--fake", action="store_true", help="on a fake GPU")
    parser.add_argument("--size", choices=SIZES, default="medium")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures into FILE")
    options = parser.parse_args()
    runs = {
        name: watch(SIZES[options.size], reads_loss=reads_loss, seconds=options.seconds, is_fake=options.fake)
        for name, reads_loss in (("reads each loss", True), ("reads none", False))
    }
    if options.json:
        options.json.write_text(json.dumps({name: asdict(run) for name, run in runs.items()}, indent=1))
    headings = ["program", "looks near the top", "need", "longest stop, ms", "allocated at each look, % of the need"]
    print(as_text([headings, *(row(name, run)[:-1] for name, run in runs.items())]))
    for name, run in runs.items():
        print(f"\nThe first line after {WITHIN_S:.0f} s, {name}: {row(name, run)[-1]}")


if __name__ == "__main__":
    main()

"""What only a GPU can tell: where in a step automatic looks fall, and what the first line of the screen says.

    python -m benchmarks.real_gpu [--seconds 60] [--fake] [--json FILE]
    python -m benchmarks.real_gpu --fake --programs trainer lora unet ...

A GPT that PyTorch alone trains runs on the first GPU, once as loops that read each step's loss, once as one that does
not. A viewer attaches as the screens do and presses no key. `--fake` runs it on a fake GPU on which each kernel takes
150 us. With `--programs`, those of `benchmarks.looks` run instead, each bound by the GPU, and with `--fake` bound by
Python as well: on a fake GPU whose kernels take no time. The Python that runs this, or the first of those that
`GPUTUI_TEST_TORCH` names,
needs a CUDA build of PyTorch.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.leaks import show
from benchmarks.looks_table import as_text
from gputui.explain.answer.answers import Answers
from gputui.explain.memory.need import need_of
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.timeline import Timeline
from gputui.sources.probe.listing import attach
from tests.torches import REPOSITORY, fake_cuda, torch_pythons

PROGRAMS = Path(__file__).parent / "programs"
OWN, NEEDING, REAL = PROGRAMS / "gpt_steps.py", PROGRAMS / "needing.py", PROGRAMS / "real"
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


class EndedError(Exception):
    """The program has ended before its first steps were over."""


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


def watch(words: Sequence[str], *, seconds: float, kernel_us: str) -> Run:
    """Run a program and watch it; without a time for a kernel on the first GPU, and else on a fake one.

    Raises EndedError if it ends before.
    """
    python = torch_pythons()[0]
    with tempfile.TemporaryDirectory(prefix="gputui-real-gpu-") as folder:
        own = {"PYTHONPATH": f"{REPOSITORY / 'gputui' / 'probe' / 'preload'}:{REPOSITORY}"}
        lab = {**fake_cuda(python, Path(folder), gpus=1), "FAKEGPU_KERNEL_US": kernel_us} if kernel_us else {}
        command = ["setpriv", "--pdeathsig", "KILL", python, "-W", "ignore", *words]
        variables = {**os.environ, **lab, **own}
        process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True, cwd=folder)
        try:
            assert process.stdout is not None
            needs = next((line for line in process.stdout if line.strip().isdigit()), None)
            if needs is None:
                raise EndedError
            threading.Thread(target=process.stdout.read, daemon=True).start()
            run = Run(int(needs))
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


def programs(
    names: Sequence[str] | None, size: Sequence[int], *, is_fake: bool
) -> Iterator[tuple[str, list[str], str]]:
    """What runs: its name, its words, and how long a kernel takes."""
    if names is None:
        words = [str(OWN), *map(str, size)]
        yield "reads each loss", [*words, "reads"], KERNEL_US if is_fake else ""
        yield "reads none", words, KERNEL_US if is_fake else ""
    for name in names or ():
        for bound, kernel_us in (("GPU", KERNEL_US), ("Python", "0")) if is_fake else (("GPU", ""),):
            yield f"{name}, bound by {bound}", [str(NEEDING), str(REAL / f"{name}.py")], kernel_us


def main() -> None:
    """Watch both, and print the table and the first lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each program is watched")
    parser.add_argument("--fake", action="store_true", help="on a fake GPU")
    parser.add_argument("--size", choices=SIZES, default="medium")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures into FILE")
    parser.add_argument(
        "--programs", nargs="*", metavar="NAME", help="programs of benchmarks.looks in place of the GPT"
    )
    options = parser.parse_args()
    runs: dict[str, Run] = {}
    for name, words, kernel_us in programs(options.programs, SIZES[options.size], is_fake=options.fake):
        try:
            runs[name] = watch(words, seconds=options.seconds, kernel_us=kernel_us)
        except EndedError:
            print(f"{name}: the program has ended; its error is above. Without a GPU: --fake.", file=sys.stderr)
        if options.json:
            options.json.write_text(json.dumps({name: asdict(run) for name, run in runs.items()}, indent=1))
    headings = ["program", "looks near the top", "need", "longest stop, ms", "allocated at each look, % of the need"]
    print(as_text([headings, *(row(name, run)[:-1] for name, run in runs.items())]))
    for name, run in runs.items():
        print(f"\nThe first line after {WITHIN_S:.0f} s, {name}: {row(name, run)[-1]}")


if __name__ == "__main__":
    main()

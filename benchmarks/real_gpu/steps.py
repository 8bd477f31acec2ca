"""Where in a step automatic looks fall, and what the first line of the screen says of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.real_gpu.place import KERNEL_US, PROGRAMS, TRAINING, Place
from benchmarks.real_gpu.result import Result, Size
from benchmarks.real_gpu.viewer import view
from gputui.explain.answer.answers import Answers
from gputui.explain.memory.need import OF_PEAK, need_of
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.timeline import Timeline

NEEDING, REAL = PROGRAMS / "needing.py", PROGRAMS / "real"
WITHIN_S = 30.0
HEADINGS = ["program", "looks near the top", "need", "longest stop, ms", "allocated at each look, % of the need"]
NEAR, NEED_OFF, ENOUGH = 0.9, 0.05, 5
"""Of what a step needs: the top, and how wrong the need may be; with fewer looks none need be high."""


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

    @property
    def near_top(self) -> int:
        """How many looks were near the top of a step."""
        return sum(share >= NEAR for share in self.shares)

    @property
    def line(self) -> str:
        """The first line after a while."""
        return ([line for at_s, line in self.lines if at_s <= WITHIN_S] or ["-"])[-1]


class Reader:
    """Reads each look as the screens show it."""

    def __init__(self, run: Run) -> None:
        self._run, self._answers, self._timeline = run, Answers(), Timeline()
        self._began, self._looked_at = time.monotonic(), 0.0
        self.has_looked = threading.Event()

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
        self.has_looked.set()


def watch(place: Place, words: Sequence[str], *, seconds: float, kernel_us: str) -> Run:
    """Run a program and watch it; raises EndedError if it ends before."""
    with place.training(*words, kernel_us=kernel_us, has_probe=True) as program:
        run = Run(program.needs_bytes)
        reader = Reader(run)
        view(program.pid, reader.take, seconds, reader.has_looked)
    return run


def row(name: str, run: Run) -> list[str]:
    """The figures of one run."""
    shown = [need for need in run.needs if need]
    error = f"{100 * (shown[-1] / run.needs_bytes - 1):+.1f} %" if shown else "-"
    shares = " ".join(f"{100 * share:.0f}" for share in run.shares)
    return [name, f"{run.near_top} of {len(run.shares)}", error, f"{max(run.stops_ms, default=0.0):.0f}", shares]


def programs(
    place: Place, names: Sequence[str] | None, training: Sequence[str]
) -> Iterator[tuple[str, list[str], str]]:
    """What runs: its name, its words, and how long a kernel takes on a fake GPU."""
    if names is None:
        yield "reads each loss", [str(TRAINING), *training, "reads"], KERNEL_US
        yield "reads none", [str(TRAINING), *training], KERNEL_US
    for name in names or ():
        for bound, kernel_us in (("GPU", KERNEL_US), ("Python", "0")) if place.is_fake else (("GPU", ""),):
            yield f"{name}, bound by {bound}", [str(NEEDING), str(REAL / f"{name}.py")], kernel_us


def looks_in_steps(place: Place, size: Size) -> Result:
    """Both loops: how many looks fell near the top of a step, the need as shown, and the first line."""
    result = Result()
    for name, words, kernel_us in [*programs(place, None, size.words)][: size.loops]:
        run = watch(place, words, seconds=size.steps_s, kernel_us=kernel_us)
        _, near, error, stop_ms, shares = row(name, run)
        result.figures[name] = {
            "looks near the top of a step": near,
            "the need as shown, against the step's": error,
            "longest stop, ms": stop_ms,
            "allocated at each look, % of the need": shares,
            f"the first line after {WITHIN_S:.0f} s": run.line,
        }
        shown = [need for need in run.needs if need]
        is_right = not shown or abs(shown[-1] / run.needs_bytes - 1) <= NEED_OFF
        result.expect_time(f"{name}: the need", f"within {NEED_OFF:.0%}", error, holds=is_right)
        highest = max(run.shares, default=0.0)
        holds = highest >= OF_PEAK or len(run.shares) < ENOUGH
        result.expect_time(f"{name}: the highest look, of the need", f"{OF_PEAK:.0%}", f"{highest:.0%}", holds=holds)
    return result

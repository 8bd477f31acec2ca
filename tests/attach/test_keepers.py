"""A leak names its keeper by itself: in real programs of any size, after a few automatic looks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputui.explain.advice import findings
from gputui.model.attached.analysis import Finding
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.timeline import Timeline
from gputui.model.machine.snapshot import Snapshot
from gputui.sources.probe.feed import TargetFeed
from tests import torches
from tests.attach.children import DRIVEN, Child, Python, wait_until
from tests.scale import SCALE

PROGRAM = Path(__file__).parent / "programs" / "keeper.py"
OBJECTS = 20_000 if SCALE == 1 else 300_000
"""The programs of the nightly run are as large as they come."""
LOOKS_AT_MOST = 60
"""Automatic looks, driven by the test; a few are enough on a quiet machine."""
BEHAVES_FOR_LOOKS = 10


@pytest.fixture
def watch(cuda_path: str, tmp_path: Path, sockets: Path) -> Iterator[Callable[..., Finding | None]]:
    """Runs a program with a habit and returns the leak that automatic looks find: the first in a look, or None."""
    python = Python(cuda_path, tmp_path, torches.fake_cuda(cuda_path, tmp_path))

    def run(habit: str, name: str, objects: int = 0, looks: int = LOOKS_AT_MOST, statement: str = "") -> Finding | None:
        child = python.fork(PROGRAM, habit, str(objects), **DRIVEN)
        child.expect("ready")
        return _leak(child, name, looks, statement)

    yield run
    python.end()


def _leak(child: Child, name: str, looks: int, statement: str) -> Finding | None:
    """The leak that is blamed on this variable and statement, within so many looks; the last one found otherwise.

    A look that has no time for the program's functions says where the variable is; the line comes with a later one.
    """
    timeline = Timeline()
    leaks: list[Finding] = []
    look_times: set[float] = set()

    def take(moment: TargetMoment) -> None:
        timeline.add(moment)
        if moment.look_time and moment.look_time not in look_times:
            look_times.add(moment.look_time)
            by_kind = {f.kind: f for f in findings(moment, 0, timeline)}
            leaks.extend([by_kind["leak"]] if "leak" in by_kind else [])

    def is_over() -> bool:
        has_ended = timeline.latest is not None and timeline.latest.ended is not None
        return (
            has_ended
            or len(look_times) >= looks
            or any(leak.owners[:1] == (name,) and _is_at(leak, statement) for leak in leaks)
        )

    feed = TargetFeed(child.attach(), Snapshot, take, interval_s=1.0)
    feed.start()
    wait_until(is_over, f"{looks} looks")
    feed.stop()
    return leaks[-1] if leaks else None


def _is_at(leak: Finding, statement: str) -> bool:
    """Whether a line that it names has this statement."""
    place = re.match(r"[^ ]+ \((\w+\.py):([\d, ]+) in [\w<>]+\) grows: ", leak.title)
    source = (PROGRAM.parent / place[1]).read_text().splitlines() if place else []
    return place is not None and any(statement in source[int(number) - 1] for number in place[2].split(", "))


TO_HOST = ".cpu() instead of "
HABITS = {
    "outputs": ("outputs", " elements, ", "Append output.cpu() instead of output", "outputs.append(output())"),
    "rows": (
        "rows",
        " elements, ",
        "Append row.clone() instead of row: these are views of ",
        "rows.append(output()[7]",
    ),
    "losses": ("losses", " graphs, ", "Append loss.item() instead of loss: that would free ", "losses.append(loss())"),
    "cache": ("cache", " elements, ", "Delete the entries of cache", "cache.update({step: output()})"),
    "buffer": ("buffer", " elements, ", "When it is full, it takes ", "buffer.append((output(), "),
    "callback": ("trainer.callbacks[1].outputs", " elements, ", TO_HOST, "self.outputs.append(value)"),
    "deep": ("trainer.loop.state.batch.seen", " elements, ", TO_HOST, ".batch.seen.append(output())"),
    "closure": ("kept", " elements, ", TO_HOST, "kept.append(value)"),
    "global": ("HISTORY", " elements, ", TO_HOST, "HISTORY.append(value)"),
    "class": ("Log.entries", " elements, ", TO_HOST, "Log.entries.append(value)"),
    "errors": ("errors", " elements, ", "Keep str(error) instead of the exceptions in errors", "errors.append(error)"),
    "total": (
        "total_loss",
        " in the graph of one tensor, ",
        "the .item() of each tensor",
        "total_loss = total_loss + loss()",
    ),
    "history": ("history", " in one tensor, ", "Keep history in host memory", ""),  # without a graph: where main() is
}
"""By habit: the variable, words of the title and of the remedy, and the line of the program that adds to it."""


@pytest.mark.parametrize("objects", [0, pytest.param(OBJECTS, marks=pytest.mark.long)], ids=["small", "large"])
@pytest.mark.parametrize("habit", HABITS)
def test_the_variable_is_named_after_a_few_automatic_looks(watch, habit, objects) -> None:
    name, content, remedy, statement = HABITS[habit]
    leak = watch(habit, name, objects, statement=statement)
    assert leak is not None
    assert leak.title.startswith(f"{name} ("), leak.title
    assert _is_at(leak, statement), leak.title
    assert content in leak.title
    assert remedy in leak.remedy
    assert leak.addresses
    if habit in ("outputs", "losses"):
        assert "The list grew from " in " ".join(leak.evidence)


def test_a_program_that_keeps_nothing_is_not_blamed(watch) -> None:
    assert watch("behave", "", looks=BEHAVES_FOR_LOOKS) is None

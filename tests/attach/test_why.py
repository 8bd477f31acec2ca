"""Real programs with one bad habit each: the findings of the Why screen name it, and find no problem without one."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from gputui.explain.advice import findings
from gputui.explain.advice.program import training
from gputui.explain.advice.situation import saved_bytes
from gputui.explain.advice.thresholds import FORWARD_BYTES, FORWARD_LOOKS
from gputui.explain.moment.probe_state import ProbeState, layouts_of, moment_of
from gputui.model.attached.analysis import DriverFacts, Finding
from gputui.model.attached.moment import HostMoment, TargetMoment
from gputui.model.attached.timeline import Timeline
from gputui.model.machine.snapshot import Snapshot
from gputui.model.weight import Weight
from gputui.sources.probe.client import ProbeClient
from gputui.sources.probe.feed import TargetFeed
from tests import torches
from tests.attach.children import Child, Python, wait_until
from tests.fakegpu.lab import Lab
from tests.hanging import POLL_S, Limit

PROGRAM = Path(__file__).parent / "programs" / "gpt.py"
MEMORY_GIB = {"fragment": 8.0, "die": 8.0, "keep_gradients": 4.0, "evaluate": 4.0, "leak": 4000.0}
"""Device memory for habits that need a small device, and for one that grows until it is found; 80 GiB otherwise."""

Findings = dict[str, Finding]


class Watched:
    """A running GPT with a habit, and the timeline of the looks at it."""

    def __init__(self, child: Child, lab: Lab) -> None:
        self.timeline = Timeline()
        self._child = child
        self._lab = lab

    def until(self, condition: Callable[[Findings], object]) -> Findings:
        """Look repeatedly until the condition holds for the findings."""
        limit = Limit()
        with self._child.attach() as client:
            while True:
                self.timeline.add(self._moment(client))
                current = self.findings()
                if condition(current):
                    return current
                titles = [finding.title for finding in current.values()]
                limit.check(partial("\n".join, titles))
                time.sleep(POLL_S)

    def until_the_end(self) -> Findings:
        """Follow the process with a feed, as the screens do, until it has ended."""
        feed = TargetFeed(self._child.attach(), Snapshot, self.timeline.add, interval_s=0.1)
        feed.start()
        wait_until(lambda: self.timeline.latest is not None and self.timeline.latest.ended, "the end")
        return self.findings()

    def findings(self) -> Findings:
        latest = self.timeline.latest
        assert latest is not None
        latest_findings = findings(latest, 0, self.timeline)
        return {finding.kind: finding for finding in latest_findings}

    def forward_passes(self) -> int:
        """The number of looks that landed in a forward pass."""
        layouts = [device.layout for moment in self.timeline.moments for device in moment.devices if device.layout]
        return sum(saved_bytes(layout) >= FORWARD_BYTES for layout in layouts)

    def _moment(self, client: ProbeClient) -> TargetMoment:
        look = client.look()
        state = ProbeState(client.greeting, look.statistics, look, layouts_of(look))
        device = self._lab.state.dev[0]
        used = next((process.used[0] for process in self._lab.state.proc if process.pid == self._child.pid), 0)
        free = device.total - device.reserved - used
        drivers = {0: DriverFacts(0, device.total, used, used, free)}
        return moment_of(look.time, state, drivers, HostMoment())


@pytest.fixture
def watch(cuda_path: str, tmp_path: Path, sockets: Path) -> Iterator[Callable[[str], Watched]]:
    """Starts a GPT with a habit."""
    python: list[Python] = []

    def start(habit: str) -> Watched:
        memory_gib = MEMORY_GIB.get(habit, 80.0)
        environment = torches.fake_cuda(cuda_path, tmp_path, memory_gib=memory_gib)
        python.append(Python(cuda_path, tmp_path, environment))
        child = python[0].fork(PROGRAM, habit)
        child.expect("ready")
        return Watched(child, Lab(tmp_path / "gpus"))

    yield start
    for interpreter in python:
        interpreter.end()


def test_after_fragmentation_ends_in_an_error_the_remedy_is_expandable_segments(watch) -> None:
    by_kind = watch("fragment").until(lambda by_kind: "out_of_memory" in by_kind)
    assert next(iter(by_kind)) == "out_of_memory"
    scattered = by_kind["scattered"]
    assert scattered.title.startswith("Fragmentation: ")
    assert "model.features[*]" in scattered.evidence[0]
    assert "expandable_segments:True" in scattered.remedy
    assert scattered.bytes > 1 << 30
    assert "stuck" not in by_kind  # the same bytes


def test_findings_remain_after_an_error_ended_the_program(watch) -> None:
    by_kind = watch("die").until_the_end()
    problems = [finding.title for finding in by_kind.values() if finding.weight is Weight.PROBLEM]
    assert [title for title in problems if title.startswith("Fragmentation: ")]
    assert "out_of_memory" in by_kind


def test_gradients_set_to_zero_instead_of_none_are_found(watch) -> None:
    kept = watch("keep_gradients").until(lambda by_kind: "kept_gradients" in by_kind)["kept_gradients"]
    assert re.fullmatch(r"320 MiB of gradients of \w+ are kept through the forward pass\.", kept.title)
    assert "zero_grad(set_to_none=True)" in kept.remedy


def test_emptying_the_cache_at_every_step_is_found_as_churn(watch) -> None:
    by_kind = watch("empty_cache").until(lambda by_kind: "churn" in by_kind)
    churn = by_kind["churn"]
    assert next(iter(by_kind)) == "churn"
    assert re.search(r"\d+ segments a second go back to the driver, and \d+ are allocated", churn.title)
    assert "torch.cuda.empty_cache() out of the training loop" in churn.remedy


def test_evaluation_without_no_grad_is_found(watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "UNUSED_GRAPH_SPAN_S", 0.1)
    saved = watch("evaluate").until(lambda by_kind: "unused_graph" in by_kind)["unused_graph"]
    assert "torch.no_grad()" in saved.remedy
    assert saved.bytes > 256 << 20


def test_a_program_without_a_bad_habit_has_no_problem(watch) -> None:
    watched = watch("behave")
    by_kind = watched.until(lambda _: watched.forward_passes() >= FORWARD_LOOKS)
    assert set(by_kind) <= {"optimizer_states", "stuck", "gap", "release", "room"}
    states = by_kind["optimizer_states"]
    assert "8 bytes for each of 84.0 million parameters" in states.title

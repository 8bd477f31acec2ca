"""Real programs with one bad habit each: the Why screen's sentence names it, and a program without says nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputui.explain.advice import findings
from gputui.explain.advice.situation import saved_bytes
from gputui.explain.advice.thresholds import FORWARD_BYTES, FORWARD_LOOKS
from gputui.explain.probe_state import ProbeState, layouts_of, moment_of
from gputui.model.analysis import DriverFacts
from gputui.model.finding import Finding, Weight
from gputui.model.moment import HostMoment, TargetMoment
from gputui.model.snapshot import Snapshot
from gputui.model.timeline import Timeline
from gputui.sources.probe.client import ProbeClient
from gputui.sources.probe.feed import TargetFeed
from tests import torches
from tests.attach.children import LIMIT_S, Child, Python, wait_until
from tests.fakegpu.lab import Lab

PROGRAM = Path(__file__).parent / "programs" / "gpt.py"
MEMORY_GIB = {"fragment": 8.0, "die": 8.0}
"""The device of a habit, where it has to be small; 80 GiB else."""

Findings = dict[str, Finding]


class Watched:
    """A running GPT with a habit, and what was seen of it."""

    def __init__(self, child: Child, lab: Lab) -> None:
        self.timeline = Timeline()
        self._child = child
        self._lab = lab

    def until(self, condition: Callable[[Findings], object]) -> Findings:
        """Look again and again until the findings are as wanted."""
        deadline = time.monotonic() + LIMIT_S
        with self._child.attach() as client:
            while True:
                self.timeline.add(self._moment(client))
                said = self.findings()
                if condition(said):
                    return said
                assert time.monotonic() < deadline, "\n".join(each.title for each in said.values())
                time.sleep(0.1)

    def to_the_end(self) -> Findings:
        """Listen as the screens do, until the process has ended."""
        feed = TargetFeed(self._child.attach(), Snapshot, self.timeline.add, interval_s=0.1)
        feed.start()
        wait_until(lambda: self.timeline.latest is not None and self.timeline.latest.ended, "the end")
        return self.findings()

    def findings(self) -> Findings:
        latest = self.timeline.latest
        assert latest is not None
        found = findings(latest, 0, self.timeline.points, self.timeline.moments)
        return {finding.kind: finding for finding in found}

    def forward_passes(self) -> int:
        """How many looks fell into one."""
        layouts = [device.layout for moment in self.timeline.moments for device in moment.devices if device.layout]
        return sum(saved_bytes(layout) >= FORWARD_BYTES for layout in layouts)

    def _moment(self, client: ProbeClient) -> TargetMoment:
        look = client.look()
        state = ProbeState(client.greeting, look.statistics, look, layouts_of(look))
        device = self._lab.state.dev[0]
        used = next((each.used[0] for each in self._lab.state.proc if each.pid == self._child.pid), 0)
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
    for each in python:
        each.end()


def names(owners: tuple[str, ...]) -> str:
    return " ".join(owners)


def test_fragmentation_ends_in_an_error_and_expandable_segments_are_named(watch) -> None:
    said = watch("fragment").until(lambda said: "out_of_memory" in said)
    assert list(said)[:2] == ["out_of_memory", "scattered"]
    scattered = said["scattered"]
    assert scattered.title.startswith("Fragmentation: ")
    assert "model.features[*]" in scattered.evidence[0]
    assert "expandable_segments:True" in scattered.remedy
    assert scattered.bytes > 1 << 30
    assert "Freeing model.features[*]" in names(said["stuck"].evidence)


def test_after_an_error_that_ended_the_program_the_last_counters_still_tell(watch) -> None:
    said = watch("die").to_the_end()
    problems = [finding.title for finding in said.values() if finding.weight is Weight.PROBLEM]
    assert [title for title in problems if title.startswith("Fragmentation: ")]
    assert "Then the process ended" in names(said["retries"].evidence)


def test_a_list_of_losses_with_their_graphs_is_a_leak(watch) -> None:
    said = watch("leak").until(lambda said: "leak" in said and said["leak"].owners[:1] == ("losses",))
    leak = said["leak"]
    assert next(iter(said)) == "leak"
    assert leak.title.startswith("A leak: losses keeps more tensors at every look")
    assert "losses grew from " in names(leak.evidence)
    assert "loss.detach() to losses" in leak.remedy
    assert leak.addresses


def test_gradients_that_are_set_to_zero_are_kept(watch) -> None:
    kept = watch("keep_gradients").until(lambda said: "kept_gradients" in said)["kept_gradients"]
    assert kept.title == "320 MiB of gradients are kept through the forward pass."
    assert "zero_grad(set_to_none=True)" in kept.remedy


def test_a_cache_that_is_emptied_at_every_step_costs_device_allocations(watch) -> None:
    said = watch("empty_cache").until(lambda said: "churn" in said)
    churn = said["churn"]
    assert next(iter(said)) == "churn"
    assert "device allocations and " in churn.title
    assert "torch.cuda.empty_cache() out of the training loop" in churn.remedy


def test_evaluation_with_a_graph_saves_activations(watch) -> None:
    saved = watch("evaluate").until(lambda said: "unused_graph" in said)["unused_graph"]
    assert "torch.no_grad()" in saved.remedy
    assert saved.bytes > 256 << 20


def test_a_program_that_behaves_has_no_problem(watch) -> None:
    watched = watch("behave")
    said = watched.until(lambda _: watched.forward_passes() >= FORWARD_LOOKS)
    assert set(said) <= {"optimizer_states", "stuck", "gap", "release", "room"}
    states = said["optimizer_states"]
    assert "8 bytes for each of 84.0 million parameters" in states.title

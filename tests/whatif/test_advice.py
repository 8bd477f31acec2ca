"""What a replay makes of the advice to use expandable segments."""

from __future__ import annotations

import json
import pickle
from array import array
from dataclasses import replace
from pathlib import Path

import pytest

from gputui.cli import main
from gputui.errors import UsageError
from gputui.explain.failure.sections import sections_of
from gputui.explain.whatif.advice import EXPANDABLE_CASE, Replayed, with_outcome
from gputui.explain.whatif.allocator.settings import DEFAULTS
from gputui.explain.whatif.cases import AS_RECORDED, Case, Known, answer
from gputui.explain.whatif.replay.recorded import Recorded, recorded
from gputui.explain.whatif.trace.operations import Kind
from gputui.explain.whatif.words import headline
from gputui.model.attached.allocator import Block, BlockState, Segment
from gputui.model.attached.analysis import Finding
from gputui.model.attached.trace import ACTIONS, Trace
from gputui.model.weight import Weight
from gputui.sources.files.torch_snapshot.snapshot import open_snapshot
from gputui.units import MIB
from tests.opening.test_torch_snapshot import FILES

SEGMENTS, SEGMENT_BYTES, KEPT_BYTES = 4, 36 * MIB, 2 * MIB
DEVICE_BYTES = 200 * MIB
FINDINGS = tuple(
    Finding(Weight.ADVICE, kind, (), "Use expandable segments.", kind=kind) for kind in ("scattered", "split", "cache")
)


def fragmented(requested_bytes: int) -> Recorded:
    """The trace of `fragmenting`, ready for a replay."""
    events, bases = fragmenting(requested_bytes)
    large = SEGMENT_BYTES - KEPT_BYTES
    count = len(events)
    trace = Trace(
        0,
        bytes(ACTIONS.index(action) for action, _, _ in events),
        array("Q", [address for _, address, _ in events]),
        array("Q", [size for _, _, size in events]),
        array("Q", [0]) * count,
        array("q", [0]) * count,
        array("i", [-1]) * count,
        is_whole=True,
    )
    segments = [
        Segment(
            0, base, SEGMENT_BYTES, 0, False, False, (0, 0),
            (
                Block(base, KEPT_BYTES, KEPT_BYTES, BlockState.ACTIVE_ALLOCATED),
                Block(base + KEPT_BYTES, large, 0, BlockState.INACTIVE),
            ),
        )
        for base in bases
    ]  # fmt: skip
    return recorded(trace, segments, DEFAULTS)


def fragmenting(requested_bytes: int) -> tuple[list[tuple[str, int, int]], list[int]]:
    """A program that keeps 2 MiB at the beginning of each of four segments, and then fails to get so many bytes.

    Its events, and where the segments are.
    """
    events: list[tuple[str, int, int]] = []
    bases = [(number + 1) << 32 for number in range(SEGMENTS)]
    large = SEGMENT_BYTES - KEPT_BYTES
    for base in bases:
        events += [("segment_alloc", base, SEGMENT_BYTES), ("alloc", base, SEGMENT_BYTES)]
        events += [("free_requested", base, SEGMENT_BYTES), ("free_completed", base, SEGMENT_BYTES)]
        events += [("alloc", base, KEPT_BYTES), ("alloc", base + KEPT_BYTES, large)]
    for base in bases:
        events += [("free_requested", base + KEPT_BYTES, large), ("free_completed", base + KEPT_BYTES, large)]
    events.append(("oom", DEVICE_BYTES - SEGMENTS * SEGMENT_BYTES, requested_bytes))
    return events, bases


def replayed(program: Recorded) -> Replayed:
    return Replayed(answer(program, AS_RECORDED), answer(program, Case(EXPANDABLE_CASE, EXPANDABLE_CASE)))


@pytest.mark.parametrize(
    ("requested_bytes", "helps", "verb"),
    [(100 * MIB, True, "would have"), (190 * MIB, False, "would not have")],
    ids=["enough", "too little"],
)
def test_a_request_that_failed_is_tried_with_expandable_segments(requested_bytes, helps, verb):
    outcome = replayed(fragmented(requested_bytes))
    assert outcome.baseline.outcome.unmet_requests == 1
    assert outcome.baseline.known is outcome.expandable.known is Known.EXACT
    assert outcome.helps is helps
    assert f"expandable_segments:True {verb} made room for the request that failed" in outcome.words
    sentence = headline(outcome.baseline, [outcome.expandable])
    assert sentence.startswith("expandable_segments:True would have made room" if helps else "No setting here makes")


@pytest.mark.parametrize(("requested_bytes", "remains"), [(100 * MIB, True), (190 * MIB, False)])
def test_advice_remains_only_where_it_helps(requested_bytes, remains):
    outcome = replayed(fragmented(requested_bytes))
    *advising, other = with_outcome(FINDINGS, outcome)
    assert other == FINDINGS[-1]
    for finding in advising:
        assert finding.remedy.startswith("Use expandable segments. ") is remains
        assert finding.remedy.endswith(outcome.words)
    assert with_outcome(FINDINGS, None) == FINDINGS


def test_the_remedies_of_a_failure_say_what_the_replay_gave():
    moment = open_snapshot(FILES["failure-2.11"])
    outcome = replayed(fragmented(190 * MIB))
    *_, remedies = sections_of(moment, outcome)
    assert outcome.words in remedies.sentences
    *_, without = sections_of(moment)
    assert remedies == replace(without, sentences=(*without.sentences, outcome.words))


def test_a_trace_that_contradicts_its_map_is_refused_with_a_sentence():
    program = fragmented(100 * MIB)
    freed_twice = replace(program.operations, kinds=bytes([Kind.FREE] * len(program.operations.kinds)))
    program = replace(program, operations=freed_twice)
    with pytest.raises(UsageError, match="contradicts the map"):
        answer(program, AS_RECORDED)


@pytest.mark.parametrize("events", [1, 10], ids=["fewer events than blocks before them", "more events"])
@pytest.mark.parametrize("is_known", [False, True], ids=["of unknown steps", "of steps alike"])
def test_a_device_too_small_for_what_was_there_before_the_trace_says_which_request_fails(events, is_known):
    """Five blocks of 30 MiB, then blocks of 1 MiB that come and go, on a device of 100 MiB."""
    before = [(number << 32, 30 * MIB) for number in range(1, 6)]
    names = ("alloc", "free_requested", "free_completed")
    trace = Trace(
        0,
        bytes(map(ACTIONS.index, names)) * events,
        array("Q", [9 << 32]) * (3 * events),
        array("Q", [MIB]) * (3 * events),
        array("Q", [0]) * (3 * events),
        array("q", [0]) * (3 * events),
        array("i", [-1]) * (3 * events),
    )
    segments = [
        Segment(0, base, size, 0, False, False, (0, 0), (Block(base, size, size, BlockState.ACTIVE_ALLOCATED),))
        for base, size in before
    ]
    program = recorded(trace, segments, DEFAULTS)
    program = program if is_known else replace(program, beginning=None)
    outcome = answer(program, Case("a smaller device", "expandable_segments:True", None, 100 * MIB)).outcome
    assert (outcome.failed_at, outcome.failed_request_bytes) == (0, 30 * MIB)
    assert outcome.peak_allocated_bytes == 90 * MIB


def snapshot_file(path: Path, requested_bytes: int) -> Path:
    """The program in PyTorch's format."""
    events, bases = fragmenting(requested_bytes)
    large = SEGMENT_BYTES - KEPT_BYTES
    entries = [
        {"action": action, "size": size, "stream": 0, "time_us": 1, "frames": []}
        | ({"device_free": address} if action == "oom" else {"addr": address})
        for action, address, size in events
    ]
    segments = [
        {
            "device": 0, "address": base, "total_size": SEGMENT_BYTES, "allocated_size": KEPT_BYTES,
            "active_size": KEPT_BYTES, "requested_size": KEPT_BYTES, "stream": 0, "segment_type": "large",
            "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
            "blocks": [
                {"address": base, "size": KEPT_BYTES, "requested_size": KEPT_BYTES, "state": "active_allocated"},
                {"address": base + KEPT_BYTES, "size": large, "requested_size": 0, "state": "inactive"},
            ],
        }
        for base in bases
    ]  # fmt: skip
    snapshot = {"segments": segments, "device_traces": [entries], "allocator_settings": {}}
    path.write_bytes(pickle.dumps(snapshot))
    return path


@pytest.mark.parametrize(("requested_bytes", "verb"), [(100 * MIB, "would have"), (190 * MIB, "would not have")])
def test_an_opened_file_says_what_the_replay_gave(tmp_path, capsys, requested_bytes, verb):
    path = str(snapshot_file(tmp_path / "memory.pickle", requested_bytes))
    words = f"expandable_segments:True {verb} made room for the request that failed (replayed, exact)."
    assert main(["open", path, "--once", "--json"]) == 0
    remedies = {remedy["kind"]: remedy for remedy in json.loads(capsys.readouterr().out)["failure"]["remedies"]}
    assert words in remedies["stuck"]["text"]
    assert remedies["stuck"]["is_enough"] is (verb == "would have")
    assert main(["open", path, "--once"]) == 0
    assert words in " ".join(capsys.readouterr().out.split())


def test_a_file_with_a_trace_that_contradicts_its_map_is_opened_without_a_replay(tmp_path, capsys):
    path = snapshot_file(tmp_path / "memory.pickle", 100 * MIB)
    snapshot = pickle.loads(path.read_bytes())
    snapshot["device_traces"][0] = [entry for entry in snapshot["device_traces"][0] if entry["action"] != "alloc"]
    path.write_bytes(pickle.dumps(snapshot))
    assert main(["open", str(path), "--once", "--json"]) == 0
    assert "failure" in json.loads(capsys.readouterr().out)

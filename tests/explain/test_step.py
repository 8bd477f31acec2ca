"""A trace as a step: sizes and curves, periods, phases, kinds, holders, and what lived too long."""

from __future__ import annotations

from array import array
from dataclasses import replace
from itertools import pairwise

import pytest

from gputui.explain.step.kinds import Kind
from gputui.explain.step.late import late_at_peak
from gputui.explain.step.layers import columns_of
from gputui.explain.step.periods import anchors_of
from gputui.explain.step.phases import Phase, phase_of_stack
from gputui.explain.step.step import Grouping, Step, step_of
from gputui.explain.step.summary import cost_words, extent, headline
from gputui.explain.step.timeline import BEFORE, timeline_of
from gputui.explain.step.view import StepView
from gputui.model.attached.allocator import CallSite
from gputui.model.attached.tensors import Category
from gputui.model.attached.trace import FREE_REQUESTED, Trace
from gputui.units import MIB
from tests.explain.traces import STACKS, Recording


def training(steps: int = 4, **options) -> Recording:
    recording = Recording()
    recording.alloc(100, "forward")
    for _ in range(steps):
        recording.step(**options)
    return recording


def stepped(recording: Recording, *, has_stacks: bool = True) -> Step:
    step = step_of(recording.trace(has_stacks=has_stacks), recording.look())
    assert step is not None
    return step


def test_nothing_is_computed_for_a_device_without_a_trace() -> None:
    view, recorded = StepView(), training().recorded()
    begun: list[Trace] = []
    view.follow(recorded, 0, lambda trace, _look, _take: begun.append(trace))
    assert (len(begun), view.is_building) == (1, True)
    view.follow(recorded, 1, lambda trace, _look, _take: begun.append(trace))
    assert (len(begun), view.is_building) == (1, False)


def test_the_curves_add_up_to_what_is_alive() -> None:
    step = stepped(training())
    timeline = step.timeline
    for event in range(len(timeline)):
        alive = sum(timeline.sizes_bytes[block] for block in timeline.alive_at(event))
        assert timeline.allocated[event] == alive
    assert timeline.allocated[-1] == 100 * MIB
    assert timeline.reserved[-1] == 100 * MIB
    assert (timeline.allocated_before, timeline.reserved_before) == (0, 0)


def test_a_block_keeps_a_rest_that_is_too_small_to_be_split_off() -> None:
    recording = Recording()
    recording.free(recording.alloc(19.5, "forward"))  # of a segment of 20 MiB
    recording.free(recording.alloc(18.5, "forward"))
    sizes = timeline_of(recording.trace(), recording.layout()).sizes_bytes
    assert sorted(sizes) == [int(18.5 * MIB), 20 * MIB]


def test_blocks_from_before_the_trace_are_alive_until_they_are_freed() -> None:
    recording = training(2)
    whole = recording.trace()
    cut = len(whole) // 2
    columns = (whole.addresses, whole.sizes_bytes, whole.streams, whole.times_us, whole.stacks)
    half = Trace(0, whole.actions[cut:], *(column[cut:] for column in columns), whole.stack_table)
    timeline, complete = timeline_of(half, recording.layout()), timeline_of(whole, recording.layout())
    assert list(timeline.allocated) == list(complete.allocated[cut:])
    assert list(timeline.reserved) == list(complete.reserved[cut:])
    assert timeline.births.count(BEFORE) == len(complete.alive_at(cut - 1))


@pytest.mark.parametrize("has_stacks", [True, False], ids=["stacks", "no stacks"])
def test_a_step_is_found_with_and_without_stacks(has_stacks) -> None:
    step = stepped(training(5), has_stacks=has_stacks)
    lengths = {end - first for first, end in step.steps}
    assert len(step.steps) >= 3
    assert len(lengths) == 1
    assert step.is_whole
    assert extent(step).startswith(f"a step of {lengths.pop():,} events")


def test_nothing_repeats_in_a_single_step() -> None:
    step = stepped(training(1), has_stacks=False)
    assert step.steps == ()
    assert (step.first, step.end) == (0, len(step.timeline))
    assert extent(step).startswith("no step found, because nothing repeats: all ")


STEP = [100, 7, 30, 31, 30, 31, 30, 31, 900, 31, 30, 31, 30, 31, 30, 8, 5, 6, 5, 6, 2000, 12]
WITH_LOGGING = [*STEP, 77, 78]


@pytest.mark.parametrize(
    ("requests", "distance"),
    [
        pytest.param(STEP * 5, len(STEP), id="steps"),
        pytest.param([3, 4, 1, 5, 9, 2, 6, 11, *STEP * 5], len(STEP), id="warm-up"),
        pytest.param((STEP * 4 + WITH_LOGGING) * 3, len(STEP), id="logging"),
        pytest.param([size + 1000 * (number // 22) for number, size in enumerate(STEP * 2)], 0, id="all sizes differ"),
        pytest.param([30, 31] * 8 + list(range(100, 180)), 0, id="layers within one step"),
        pytest.param([], 0, id="empty"),
    ],
)
def test_the_period_of_requests(requests: list[int], distance: int) -> None:
    anchors = anchors_of(requests)
    distances = sorted(after - before for before, after in pairwise(anchors))
    assert (distances[len(distances) // 2] if distances else 0) == distance


def test_batches_of_other_lengths_keep_the_steps_of_the_optimizer() -> None:
    recording = Recording()
    recording.alloc(100, "forward")
    for scale in (1, 2, 0.5, 3):
        recording.step(activations=(8 * scale, 16 * scale, 8 * scale))
    step = stepped(recording)
    assert len(step.steps) == 2  # the first has no end before it, the last none after it


def test_phases_come_from_the_stacks() -> None:
    step = stepped(training())
    assert [run.phase for run in step.phases_within()] == [Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER]
    checkpoint = (
        *STACKS["forward"][:1],
        CallSite("/venv/torch/utils/checkpoint.py", 1, "recompute_fn"),
        CallSite("/venv/torch/autograd/function.py", 2, "apply"),
    )
    assert phase_of_stack(checkpoint) is Phase.BACKWARD
    called = CallSite("/venv/torch/_tensor.py", 3, "backward"), CallSite("train.py", 4, "step")
    assert phase_of_stack(called) is Phase.BACKWARD
    function = CallSite("model.py", 1, "forward"), CallSite("/venv/torch/autograd/function.py", 2, "apply")
    assert phase_of_stack((*function, *STACKS["forward"])) is Phase.FORWARD
    assert phase_of_stack((CallSite("train.py", 1, "main"),)) is Phase.UNKNOWN
    closure = CallSite("/venv/lightning/loops/closure.py", 1, "closure"), *STACKS["optimizer"]
    assert phase_of_stack((*STACKS["forward"], *closure)) is Phase.FORWARD
    assert phase_of_stack((*called, *closure)) is Phase.BACKWARD
    assert phase_of_stack(closure) is Phase.UNKNOWN


def test_a_trace_without_allocations_is_of_no_phase() -> None:
    recording = Recording()
    recording.free(recording.alloc(1, "forward"))
    recorded = recording.recorded()
    trace = recorded.traces[0]
    freed = replace(trace, actions=bytes([FREE_REQUESTED] * len(trace)), stack_table=(*trace.stack_table, ()))
    step = step_of(freed, recorded.look)
    assert step is not None
    assert {run.phase for run in step.phases} == {Phase.UNKNOWN}


def test_kinds_come_from_birth_and_death() -> None:
    step = stepped(training())
    kinds = step.bytes_by_kind(step.peak)
    assert kinds == {
        Kind.ACTIVATION: (100 + 8 + 16 + 8 + 32) * MIB,  # the block that stays was allocated in forward
        Kind.TEMPORARY: 12 * MIB,
    }
    last = step.phases_within()[-1]
    assert step.bytes_by_kind(last.first)[Kind.GRADIENT] == 8 * MIB


def test_what_the_optimizer_computes_at_the_end_of_a_trace_is_no_state() -> None:
    recording = training(3)
    recording.name(
        recording.alloc(6, "optimizer"), "optimizer.state[model.fc.weight].exp_avg", Category.OPTIMIZER_STATE
    )
    recording.alloc(5, "optimizer")
    step = step_of(recording.trace(), recording.look())
    assert step is not None
    kinds = step.bytes_by_kind(len(step.timeline) - 1)
    assert (kinds[Kind.OPTIMIZER_STATE], kinds[Kind.TEMPORARY]) == (6 * MIB, 5 * MIB)


def test_the_names_of_the_look_hold_for_the_same_places_in_other_steps() -> None:
    recording = training(3)
    recording.name(recording.alloc(8, "forward"), "input of LinearBackward0", Category.ACTIVATION, "model.fc")
    step = step_of(recording.trace(), recording.look())
    assert step is not None
    modules = {group.name: group.bytes for group in step.holders(step.peak, Grouping.MODULE)}
    assert modules["model.fc"] == 8 * MIB


def test_the_answer_names_peak_phase_and_holders() -> None:
    recording = training()
    step = stepped(recording)
    assert headline(step) == (
        "peak 176 MiB in backward (event 9 of 55), held by activations 164 MiB, temporaries 12.0 MiB"
    )
    assert cost_words(step, recording.recorded()) == (
        "Steps took 2.00 times as long while recorded, for 1.0 s; the program stopped once for 40 ms."
    )


def test_what_an_earlier_step_has_left_is_named_with_its_remedy() -> None:
    recording = training(kept_mib=48)
    (late,) = late_at_peak(stepped(recording))
    assert late.words == (
        "48.0 MiB of ana/model.py:40 in forward, from the step before: a variable keeps it until it is assigned again,"
        " so `del` it after its last use."
    )


def test_after_a_failed_request_the_step_is_the_one_in_which_it_failed() -> None:
    recording = training(3)
    begins = len(recording.rows)
    for mib in (8, 16, 8):
        recording.alloc(mib, "forward")
    recording.rows.append(("oom", 100 * MIB, 512 * MIB, "forward"))
    step = stepped(recording)
    assert step.is_unfinished
    assert (step.first, step.end) == (pytest.approx(begins, abs=8), len(recording.rows))
    assert extent(step).startswith("the step that failed: ")
    assert ", after 2 whole steps, " in extent(step)
    assert step.peak == len(recording.rows) - 2


def test_a_request_that_failed_before_the_last_step_changes_nothing() -> None:
    recording = training(2)
    recording.rows.append(("oom", 100 * MIB, 512 * MIB, "forward"))
    for _ in range(2):
        recording.step()
    assert stepped(recording).is_whole


def test_columns_show_the_largest_event_of_each() -> None:
    step = stepped(training())
    for width in (1, 7, 80):
        columns = columns_of(step, width)
        assert len(columns) == min(width, step.end - step.first)
        assert max(sum(column.layers) for column in columns) == step.timeline.allocated[step.peak]
        assert [column.first for column in columns[1:]] == [column.end for column in columns[:-1]]


def test_many_events_make_columns_and_no_objects() -> None:
    recording = training(50)
    one = recording.trace()
    copies = -(-100_000 // len(one))
    trace = Trace(
        0,
        one.actions * copies,
        *(array("Q", column) * copies for column in (one.addresses, one.sizes_bytes, one.streams, one.times_us)),
        one.stacks * copies,
        one.stack_table,
    )
    step = step_of(trace, recording.look())
    assert step is not None
    assert len(step.timeline) == len(trace)
    assert isinstance(step.timeline.allocated, array)

"""Trainings recorded with one setting and one batch, and really run with others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.explain.whatif.cases import AS_RECORDED, Case, Known, answer, largest_batch
from gputui.explain.whatif.replay.replay import Outcome
from gputui.explain.whatif.trace.operations import operations_of
from gputui.explain.whatif.trace.scaling import varying
from gputui.units import MIB
from tests.scale import SCALE
from tests.whatif.conftest import recorded_in, segment_of, trace_of

TOLERANCE = 0.01
"""How far a peak for another batch may be from the real one."""


@pytest.mark.parametrize("model", ["gpt", "lora", "resnet", "unet"])
@pytest.mark.parametrize("part", ["whole", "middle"])
def test_the_recorded_settings_give_the_recorded_peaks(run, model, part):
    report = run("training_steps.py", model, 4, part, "trace")
    outcome = answer(recorded_in(report), AS_RECORDED)
    assert outcome.known is Known.EXACT
    assert outcome.outcome.peak_reserved_bytes == report["peak_reserved_bytes"]
    assert outcome.outcome.reserved_bytes == report["reserved_bytes"]


@pytest.mark.parametrize("settings", ["expandable_segments:True", "max_split_size_mb:32", "roundup_power2_divisions:4"])
def test_other_settings_give_what_a_real_run_takes(run, settings):
    recorded = recorded_in(run("training_steps.py", "gpt", 4, "whole", "trace"))
    real = run("training_steps.py", "gpt", 4, "none", settings=settings)
    outcome = answer(recorded, Case(settings, settings))
    assert outcome.known is Known.EXACT
    assert outcome.outcome.peak_reserved_bytes == real["peak_reserved_bytes"]
    assert outcome.outcome.peak_allocated_bytes == real["peak_allocated_bytes"]


@pytest.mark.long
@pytest.mark.parametrize("model", ["gpt", "lora", "resnet", "unet", "gpt-mixed", "gpt-checkpointed"])
@pytest.mark.parametrize("batch", [8, 32] if SCALE > 1 else [32])
def test_another_batch_takes_what_a_real_run_takes(run, model, batch):
    recorded = recorded_in(run("training_steps.py", model, 4, "whole", "trace"))
    real = run("training_steps.py", model, batch, "none")
    outcome = answer(recorded, Case("batch", batch=(4, batch)))
    assert outcome.known is Known.SCALED
    assert outcome.outcome.peak_reserved_bytes == pytest.approx(real["peak_reserved_bytes"], rel=TOLERANCE)
    assert outcome.outcome.peak_allocated_bytes == pytest.approx(real["peak_allocated_bytes"], rel=TOLERANCE)


def test_what_scales_does_not_depend_on_where_in_a_step_the_trace_begins(run):
    """What was freed first was not made right before, so it is no workspace."""
    report = run("training_steps.py", "resnet", 4, "whole", "trace")
    trace, segments = trace_of(report), [segment_of(entry) for entry in report["segments"]]
    of_whole = varying(operations_of(trace, segments))
    begins = range(len(trace) // 3, len(trace) // 2, 5)
    for begin in begins:
        names = ("actions", "addresses", "sizes_bytes", "streams", "times_us", "stacks")
        rest = replace(trace, **{name: getattr(trace, name)[begin:] for name in names}, empty_cache_calls=None)
        operations = operations_of(rest, segments)
        flags = varying(operations)[operations.earlier :]
        sizes = operations.sizes_bytes[operations.earlier :]
        pairs = zip(sizes, flags, of_whole[-len(flags) :], strict=True)
        assert not [size for size, flag, expected in pairs if flag != expected and size >= MIB], f"from event {begin}"


def test_the_largest_batch_that_fits_is_the_true_one(run):
    limit = 2048 * MIB
    recorded = recorded_in(run("training_steps.py", "gpt", 4, "whole", "trace"))
    largest = largest_batch(recorded, 4, Case("device", device_memory_bytes=limit))
    assert largest is not None
    assert largest.peak_reserved_bytes <= limit

    def on_it(batch: int) -> Outcome:
        return answer(recorded, Case("device", batch=(4, batch), device_memory_bytes=limit)).outcome

    reached, beyond = on_it(largest.batch), on_it(largest.without_retries + 1)
    assert (largest.peak_reserved_bytes, largest.retries) == (reached.peak_reserved_bytes, reached.retries)
    assert on_it(largest.without_retries).retries == 0
    assert beyond.retries or beyond.is_out_of_memory
    fitting, failing = (run("training_steps.py", "gpt", batch, "none") for batch in (largest.batch, largest.batch + 2))
    assert fitting["peak_reserved_bytes"] <= limit * (1 + TOLERANCE)
    assert failing["peak_reserved_bytes"] > limit

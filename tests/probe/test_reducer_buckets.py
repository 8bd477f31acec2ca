"""The sizes by which DistributedDataParallel's gradient buckets are known are those of PyTorch's Reducer."""

import pytest

from gputui.probe.tensors.reducer_buckets import LEAST_BYTES

WRAPPERS = [f"{model}, {options}" for model in ("gpt", "layers") for options in ("as it is", "small", "unused")]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_the_buckets_are_known_before_and_after_the_first_step(run_once, wrapper):
    report = run_once("buckets.py")[wrapper]
    first, then = ([size for size in report[key] if size >= LEAST_BYTES] for key in ("first", "then"))
    assert first
    assert {*first, *then} <= {*report["known"]}


def test_gradients_that_are_views_have_no_buckets_beside_them(run_once):
    assert run_once("buckets.py")["views"]["known"] == []

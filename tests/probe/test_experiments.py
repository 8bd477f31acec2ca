"""The experiments people make to understand the allocator, with the numbers that the probe shows at each moment."""

from __future__ import annotations

import pytest

# Moments as (label, allocated, reserved, releasable, taken from the driver, peak allocated), in MiB.
EXPERIMENTS = {
    "make_move_assign_delete": [
        ["1 GiB made", 1024, 1024, 0, 1024, 1024],
        ["another made", 2048, 2048, 0, 2048, 2048],
        ["the second moved to the CPU", 1024, 2048, 1024, 2048, 2048],  # allocated falls, reserved does not
        ["cache emptied", 1024, 1024, 0, 1024, 2048],
        ["the name assigned again", 1024, 2048, 1024, 2048, 2048],  # the new one was made before the old was freed
        ["deleted", 0, 2048, 2048, 2048, 2048],
        ["cache emptied again", 0, 0, 0, 0, 2048],
    ],
    "mean_backward": [
        ["x of 3 GiB", 3072, 3072, 0, 3072, 3072],
        ["y = 5 * x", 6144, 6144, 0, 6144, 6144],
        ["y.mean().backward()", 9216, 12290, 3074, 12290, 12288],  # x, y and x.grad; at the peak also the gradient of y
        ["y deleted, cache emptied", 6144, 6144, 0, 6144, 12288],
    ],
    "one_small_tensor_holds_a_segment": [
        ["5 of 4 MiB in one segment", 20, 20, 0, 20, 20],
        ["one of them left", 4, 20, 0, 20, 20],
        ["cache emptied, the segment is kept", 4, 20, 0, 20, 20],
        ["the last deleted, cache emptied", 0, 0, 0, 0, 20],
    ],
}


@pytest.mark.parametrize(("name", "moments"), EXPERIMENTS.items(), ids=EXPERIMENTS.keys())
def test_the_probe_shows_the_expected_numbers_at_every_moment(run_program, name, moments):
    assert run_program("experiments.py", name)["moments"] == moments

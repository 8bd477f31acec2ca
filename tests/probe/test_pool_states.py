"""What empty_cache() returns is in the predicted range in every state of pools, captures that failed among them."""

from __future__ import annotations

import pytest

from tests.scale import scaled

pytestmark = pytest.mark.every_torch

STATES = {"captured", "captured in a thread", "shared", "failed", "in a MemPool", "own allocator"}


@pytest.mark.long
def test_what_is_released_is_in_the_predicted_range(run_program, record_property):
    count = scaled(10, 50)
    record_property("count", f"{count} sequences")
    report = run_program("pool_states.py", "0", str(count), memory_gib=8)
    assert report["mismatches"] == []
    assert report["released_bytes"] > 0
    assert report["sure"] > report["looks"] / 2
    assert report["refused"] <= report["looks"] / 100
    assert STATES - {"in a MemPool", "own allocator"} <= set(report["states"]) <= STATES

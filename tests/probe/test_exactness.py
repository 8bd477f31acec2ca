"""The probe predicts exactly how many bytes empty_cache() releases, according to the allocator and the driver."""

from __future__ import annotations

import pytest

from tests.scale import SCALE, scaled

pytestmark = pytest.mark.every_torch

EVERYTHING = "streams,pools,graphs,endings"
# Pools over expandable segments are never destroyed here: PyTorch itself may abort when a MemPool there is destroyed.
CONFIGURATIONS = [
    pytest.param("", EVERYTHING, (2, 6), id="native"),
    pytest.param("max_split_size_mb:40", EVERYTHING, (2, 3), id="max_split"),
    pytest.param("roundup_power2_divisions:[64:8,256:4,>:1]", EVERYTHING, (2, 3), id="roundup"),
    pytest.param("expandable_segments:True", "streams", (2, 6), id="expandable"),
    pytest.param("expandable_segments:True,large_segment_size_mb:32", "streams", (1, 2), id="large_pages"),
    pytest.param("expandable_segments:True", "streams,pools,graphs", (2, 3), id="expandable_pools"),
    pytest.param("", "streams,toggle", (2, 2), id="toggled"),
    pytest.param("", "history", (1, 2), id="history"),
]

DEVICES = [1, 2] if SCALE > 1 else [2]
"""Two do all that one does."""


@pytest.mark.long
@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize(("configuration", "parts", "counts"), CONFIGURATIONS)
def test_the_predicted_bytes_are_released(run_program, configuration, parts, counts, devices, record_property):
    count = scaled(*counts)
    record_property("count", f"{count} programs")
    report = run_program(
        "random_release.py", str(1000 * devices), str(count), str(devices), parts,
        PYTORCH_CUDA_ALLOC_CONF=configuration, FAKEGPU_EVENT_LAG_MS="2", memory_gib=8,
    )  # fmt: skip
    assert report["mismatches"] == []
    assert report["released_bytes"] > 0
    required = {"streams": "pending", "pools": "held pool", "graphs": "routed", "endings": "freeable pool"}
    assert all(report["covered"][case] for part, case in required.items() if part in parts.split(","))
    assert bool(report["covered"]["expandable"]) == ("expandable" in configuration or "toggle" in parts)

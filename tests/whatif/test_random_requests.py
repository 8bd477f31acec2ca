"""Random programs, traced under the default settings and really run under others: the model gives the same bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.explain.whatif.allocator.settings import Device, with_settings
from gputui.explain.whatif.replay.replay import replay_in_slices
from gputui.explain.whatif.trace.operations import operations_of
from gputui.sources.files.torch_snapshot.segments import settings_of as snapshot_settings
from gputui.units import MIB
from tests.scale import scaled
from tests.whatif.conftest import settings_of, trace_of

pytestmark = [pytest.mark.every_torch, pytest.mark.long]

FIRST_SEED, COUNT = 1, scaled(4, 8)
DEVICE_BYTES = (int(79.65 * 1024) - 512) * MIB
"""What CUDA says that the device has: the driver keeps the rest of NVML's total. A memory fraction is of this."""
CONTEXT_BYTES = 518 * MIB
WHOLE_DEVICE = Device(DEVICE_BYTES - CONTEXT_BYTES, DEVICE_BYTES, 1.0)
"""Under which the programs are recorded."""

SETTINGS = [
    pytest.param("", 1.0, id="as recorded"),
    pytest.param("expandable_segments:True", 1.0, id="expandable"),
    pytest.param("max_split_size_mb:64", 1.0, id="max_split"),
    pytest.param("roundup_power2_divisions:[64:8,256:4,>:1]", 1.0, id="roundup"),
    pytest.param("garbage_collection_threshold:0.3", 0.1, id="garbage_collection"),
]


@pytest.mark.parametrize(("settings", "fraction"), SETTINGS)
def test_the_replay_reserves_what_the_program_reserves(run, settings, fraction, record_property):
    report = run("random_requests.py", FIRST_SEED, COUNT, 1, "trace")
    recorded = report["programs"]
    really = run("random_requests.py", FIRST_SEED, COUNT, fraction, settings=settings)
    real = really["programs"]
    read = snapshot_settings({"allocator_settings": really["settings"]}, ()).roundup_divisions  # 2.4 has others
    record_property("count", f"{COUNT} programs")
    device = Device(DEVICE_BYTES - CONTEXT_BYTES, DEVICE_BYTES, fraction)
    for trace, measured in zip(recorded, real, strict=True):
        operations = operations_of(trace_of(trace), ())
        asked = with_settings(settings_of(report["settings"], trace, WHOLE_DEVICE), settings)
        *_, outcome = replay_in_slices(operations, replace(asked, roundup_divisions=read), device)
        expected = {name: measured[name] for name in ("peak_reserved_bytes", "peak_allocated_bytes", "reserved_bytes")}
        assert {name: getattr(outcome, name) for name in expected} == expected, f"seed {trace['seed']}"
        assert outcome.retries == measured["retries"]
        assert not outcome.is_out_of_memory
    assert any(program["empty_cache_calls"] for program in recorded)
    assert any(program["failures"] for program in recorded)

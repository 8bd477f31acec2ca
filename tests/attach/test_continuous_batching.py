"""transformers' continuous batching is shown as a server: its cache, its requests, and what masks take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.attach.children import Child, Python
from tests.attach.command import attach

pytestmark = pytest.mark.packages("transformers")

PROGRAM = Path(__file__).parent / "programs" / "continuous_batching.py"


@pytest.fixture
def server(cuda_python: Python) -> Child:
    return cuda_python.run([cuda_python.path, str(PROGRAM)])


def test_it_says_what_the_engine_says(server: Child, cuda_python: Python):
    engine = json.loads(server.expect("serving "))
    variables = {key: cuda_python.environment[key] for key in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    status, text, errors = attach(str(server.pid), "--once", "--json", environment=variables)
    assert status == 0, errors
    document = json.loads(text)
    serving = document["serving"]
    cache, requests = serving["kv_cache"], serving["requests"]
    assert (serving["engine"], serving["role"]) == ("transformers", "continuous batching")
    assert {name: cache[name] for name in ("blocks", "bytes_per_block", "blocks_in_use", "blocks_with_prefix")} == {
        "blocks": engine["blocks"], "bytes_per_block": engine["block_bytes"],
        "blocks_in_use": engine["blocks_in_use"], "blocks_with_prefix": engine["prefix_blocks"],
    }  # fmt: skip
    assert engine["blocks_in_use"] > 0
    assert (cache["layers"], cache["tokens"]) == (6, 256 * engine["blocks"])
    names = ("running", "waiting", "longest_tokens", "preemptions")
    assert {name: requests[name] for name in names} == {
        "running": engine["running"], "waiting": engine["waiting"], "longest_tokens": engine["longest_tokens"],
        "preemptions": None,
    }  # fmt: skip
    parts = {part["part"]: part["bytes"] for part in serving["division"]}
    assert sum(parts.values()) == document["devices"][0]["nvml"]["device_total_bytes"]
    assert parts["kv_cache"] == rounded(engine["cache_bytes"])
    assert parts["masks"] == rounded(engine["mask_bytes"])
    printed = " ".join(attach(str(server.pid), "--once", environment=variables)[1].split())
    assert f"KV blocks: {engine['blocks_in_use']:,} of {engine['blocks']:,} in use" in printed
    assert "attention masks flash attention needs none" in printed


def rounded(size_bytes: int) -> int:
    """As PyTorch's allocator rounds it: to 512 bytes."""
    return -(-size_bytes // 512) * 512

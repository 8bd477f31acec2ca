"""A real SGLang on fake GPUs: what is shown equals what it says of itself. Needs an interpreter with SGLang."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.attach.children import Python
from tests.attach.command import attach

pytestmark = pytest.mark.packages("sglang")

ENGINE = Path(__file__).parent / "programs" / "sglang_engine.py"
PYTHON_TREE = {"SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND": "python"}
MODES = {
    "as it is by default": ({}, {}),
    "a tree of prefixes in Python": ({}, PYTHON_TREE),
    "pages of 16 tokens": ({"page_size": 16}, PYTHON_TREE),
}
"""Flags, and variables of the environment."""
BYTES_PER_TOKEN = 6 * 4 * 64 * 2 * 2


@pytest.mark.parametrize("mode", MODES)
def test_the_document_says_what_the_server_says(cuda_python: Python, mode: str):
    flags, environment = MODES[mode]
    child = cuda_python.run([cuda_python.path, str(ENGINE), json.dumps(flags)], **environment)
    engine = json.loads(child.expect("started "))
    variables = {key: cuda_python.environment[key] for key in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    status, text, errors = attach(str(child.pid), "--once", "--json", "--yes", environment=variables)
    assert status == 0, errors
    document = json.loads(text)
    serving, device = document["serving"], document["devices"][0]
    cache = serving["kv_cache"]
    assert (serving["engine"], serving["role"]) == ("SGLang", "scheduler")
    assert (cache["tokens"], cache["layers"]) == (engine["tokens"], 6)
    assert cache["bytes_per_block"] == BYTES_PER_TOKEN * flags.get("page_size", 1)
    is_known = bool(environment)  # a tree in Rust does not show its numbers
    assert (cache["blocks_in_use"], cache["blocks_free"]) == ((0, cache["blocks"]) if is_known else (None, None))
    assert cache["blocks_with_prefix"] == (0 if is_known else None)
    assert (serving["requests"]["running"], serving["requests"]["waiting"]) == (0, 0)
    parts = {part["part"]: part["bytes"] for part in serving["division"]}
    assert sum(parts.values()) == device["nvml"]["device_total_bytes"]
    assert parts["kv_cache"] >= cache["bytes"]


def test_its_requests_are_told_as_the_server_counts_them(cuda_python: Python):
    child = cuda_python.run([cuda_python.path, str(ENGINE), "{}", "--requests"], **PYTHON_TREE)
    engine = json.loads(child.expect("serving "))
    variables = {key: cuda_python.environment[key] for key in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    status, text, errors = attach(str(child.pid), "--once", "--json", "--yes", environment=variables)
    assert status == 0, errors
    serving = json.loads(text)["serving"]
    requests = serving["requests"]
    assert (requests["running"], requests["waiting"]) == (engine["num_running_reqs"], engine["num_waiting_reqs"])
    assert requests["longest_tokens"] == engine["longest_tokens"]
    generated = engine["longest_tokens"] - engine["longest_prompt"]
    cache = serving["kv_cache"]
    assert cache["blocks_in_use"] == engine["prompt_tokens"] + requests["running"] * generated
    assert cache["blocks_with_prefix"] == engine["prompt_tokens"]

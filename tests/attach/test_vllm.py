"""A real vLLM on fake GPUs: what is shown equals what the engine says of itself, and what it becomes with other flags.

Needs an interpreter with vLLM in `GPUTUI_TEST_TORCH`; each start takes half a minute or more.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputui.explain.serving.other_flags import Flags, with_flags
from gputui.model.attached.serving import Serving
from tests.attach.children import Child, Python
from tests.attach.command import attach, gputui

pytestmark = pytest.mark.packages("vllm")

ENGINE = Path(__file__).parent / "programs" / "vllm_engine.py"

TABLES_BLOCKS = 2 * 2**20 // (6 * 16 * 4 * 2 * 64 * 2)
"""PyTorch takes 2 MiB from the driver at once: that much more or less the tables of blocks can take, in blocks."""

NOT_SPLIT_BYTES = 2**20
"""PyTorch leaves less than this at the end of a block, which before vLLM 0.30 each layer's cache has."""

Start = Callable[..., Child]


@pytest.fixture
def start(cuda_python: Python) -> Start:
    """Starts a vLLM with some flags."""

    def started(*arguments: str, **flags: Any) -> Child:
        libraries = cuda_python.environment["LD_LIBRARY_PATH"].split(":")[0]
        variables = {
            "VLLM_NCCL_SO_PATH": f"{libraries}/libcuda.so.1", "TRITON_LIBCUDA_PATH": libraries,
            "VLLM_ALLREDUCE_USE_SYMM_MEM": "0",
        } | ({"FAKEGPU_KEPT_COPIES": "1"} if "tensor_parallel_size" in flags else {})  # fmt: skip
        return cuda_python.run([cuda_python.path, str(ENGINE), json.dumps(flags), *arguments], **variables)

    return started


def version_of(python: str) -> tuple[int, ...]:
    """vLLM's, in an interpreter: (0, 33)."""
    code = "import importlib.metadata; print(importlib.metadata.version('vllm'))"
    text = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout
    return tuple(map(int, text.split(".")[:2]))


def in_version(flags: dict[str, Any], version: tuple[int, ...]) -> dict[str, Any]:
    """Flags as a version of vLLM names them."""
    compilation = flags.get("compilation_config")
    if compilation is None or version >= (0, 12):
        return flags
    return flags | {"compilation_config": {"level" if key == "mode" else key: of for key, of in compilation.items()}}


def documents_of(child: Child, python: Python) -> list[dict[str, Any]]:
    """The attach documents of a server's processes."""
    variables = {key: python.environment[key] for key in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    status, text, errors = attach(str(child.pid), "--once", "--json", "--yes", environment=variables)
    assert status == 0, errors
    return [json.loads(line) for line in text.splitlines()]


def document_of(child: Child, python: Python) -> dict[str, Any]:
    [document] = documents_of(child, python)
    return document


MODES = {
    "eager": {},
    "CUDA graphs": {
        "enforce_eager": False,
        "compilation_config": {"mode": 0, "cudagraph_mode": "FULL", "cudagraph_capture_sizes": [1, 2, 4, 8]},
    },
    "LoRA": {"enable_lora": True, "max_loras": 2, "max_lora_rank": 16},
    "a cache of 8 bits": {"kv_cache_dtype": "fp8", "dtype": "bfloat16"},
    "weights of 8 bits": {"quantization": "fp8"},
}
OWN_PART = {"CUDA graphs": "graphs", "LoRA": "lora", "weights of 8 bits": "quantised"}


@pytest.mark.parametrize("mode", MODES)
def test_the_document_says_what_the_engine_says(start: Start, cuda_python: Python, mode: str):
    child = start("--requests", **in_version(MODES[mode], version_of(cuda_python.path)))
    started = json.loads(child.expect("result started "))
    child.say("")
    engine = json.loads(child.expect("serving "))
    document = document_of(child, cuda_python)
    serving = document["serving"]
    cache_now, requests = serving["kv_cache"], serving["requests"]
    assert (serving["engine"], serving["role"]) == ("vLLM", "engine core")
    assert (cache_now["blocks"], cache_now["tokens"], cache_now["layers"]) == (engine["blocks"], engine["tokens"], 6)
    assert (cache_now["blocks_free"], cache_now["blocks_with_prefix"]) == (
        engine["free_blocks"], engine["prefix_blocks"],
    )  # fmt: skip
    assert cache_now["blocks_in_use"] == started["free_blocks"] - engine["free_blocks"] > 0
    assert {name: requests[name] for name in ("running", "waiting", "longest_tokens")} == {
        name: engine[name] for name in ("running", "waiting", "longest_tokens")
    }
    parts = {part["part"]: part["bytes"] for part in serving["division"]}
    assert sum(parts.values()) == document["devices"][0]["nvml"]["device_total_bytes"]
    assert 0 <= parts["kv_cache"] - cache_now["bytes"] < 6 * NOT_SPLIT_BYTES
    assert mode not in OWN_PART or parts[OWN_PART[mode]] > 0
    assert serving["profile"]["kv_available_bytes"] // cache_now["bytes_per_block"] == engine["blocks"]


def test_the_workers_of_tensor_parallelism_are_shown_together_each_with_its_device(start: Start, cuda_python: Python):
    child = start(tensor_parallel_size=2, disable_custom_all_reduce=True)
    engine = json.loads(child.expect("result started "))
    documents = documents_of(child, cuda_python)
    workers = [document for document in documents if document["serving"]["role"] == "worker"]
    assert len(documents) == len(workers) == 2
    for worker in workers:
        parts = {part["part"]: part["bytes"] for part in worker["serving"]["division"]}
        cache = worker["serving"]["kv_cache"]
        assert sum(parts.values()) == worker["devices"][0]["nvml"]["device_total_bytes"]
        assert (cache["blocks"], cache["tokens"]) == (engine["blocks"], engine["tokens"])
        assert 0 <= parts["kv_cache"] - cache["bytes"] < 6 * NOT_SPLIT_BYTES
    devices = {worker["devices"][0]["index"] for worker in workers}
    assert devices == {0, 1}


def test_what_sleeps_is_not_on_the_device(start: Start, cuda_python: Python):
    child = start("--sleeps", enable_sleep_mode=True)
    engine = json.loads(child.expect("result started "))
    awake = document_of(child, cuda_python)
    child.say("")
    child.expect("asleep")
    asleep = document_of(child, cuda_python)
    child.say("")
    child.expect("awake")
    for document in (awake, asleep, document_of(child, cuda_python)):
        parts = {part["part"]: part["bytes"] for part in document["serving"]["division"]}
        assert sum(parts.values()) == document["devices"][0]["nvml"]["device_total_bytes"]
        sleeps = document is asleep
        assert ("kv_cache" in parts) != sleeps
        assert sleeps == (document["serving"]["asleep_bytes"] > document["serving"]["kv_cache"]["bytes"])
        assert document["serving"]["kv_cache"]["blocks"] == engine["blocks"]


TOO_MUCH = {
    "its weights": (
        {"hf_overrides": {"hidden_size": 16384, "intermediate_size": 65536, "num_hidden_layers": 60}},
        "while vLLM loaded its weights",
    ),
    "a forward pass of all its requests": (
        {"max_num_seqs": 800_000, "max_num_batched_tokens": 800_000},
        "in a trial run of vLLM's sampler",
    ),
    "its cache": ({"kv_cache_memory_bytes": 100 << 30}, "while vLLM allocated its KV cache"),
}


@pytest.mark.parametrize(("flags", "words"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_where_it_runs_out_of_memory_is_told(
    start: Start, cuda_python: Python, tmp_path: Path, flags: dict[str, Any], words: str
):
    cuda_python.environment["GPUTUI_BLACK_BOX"] = str(tmp_path / "kept")
    assert start(**flags).ended() == 1
    [path] = (tmp_path / "kept").iterdir()
    status, text, errors = gputui("open", str(path), "--once", "--json")
    assert status == 0, errors
    assert json.loads(text)["failure"]["server"]["words"] == words


TRIED = {
    "more of the device": {"gpu_memory_utilization": 0.9},
    "less of it": {"gpu_memory_utilization": 0.25},
    "8 bits": {"kv_cache_dtype": "fp8"},
    "larger blocks": {"block_size": 32},
    "longer requests": {"max_model_len": 16384},
    "a third of it": {"gpu_memory_utilization": 0.33},
    "four times as large blocks": {"block_size": 64},
    "8 bits, and three quarters of it": {"gpu_memory_utilization": 0.75, "kv_cache_dtype": "fp8"},
    "much larger blocks": {"block_size": 128},
    "8 bits in much larger blocks": {"gpu_memory_utilization": 0.6, "kv_cache_dtype": "fp8", "block_size": 128},
    "8 bits, and more of the device": {"gpu_memory_utilization": 0.95, "kv_cache_dtype": "fp8"},
    "larger blocks, and more of the device": {"gpu_memory_utilization": 0.7, "block_size": 32},
    "longer requests than it has room for": {"gpu_memory_utilization": 0.0078, "max_model_len": 16384},
    "more than there is": {"gpu_memory_utilization": 0.999},
    "nothing left": {"gpu_memory_utilization": 0.003},
    "all of it together": {"gpu_memory_utilization": 0.8, "kv_cache_dtype": "fp8", "block_size": 64},
}


_usual: dict[str, Serving] = {}


def usual(start: Start, path: str) -> Serving:
    """What a vLLM with the usual flags says of itself; it is started once."""
    if path not in _usual:
        child = start()
        child.expect("result started ")
        with child.attach() as client:
            serving = client.statistics().serving
        child.end()
        assert serving is not None
        _usual[path] = serving
    return _usual[path]


@pytest.mark.parametrize("flags", TRIED.values(), ids=TRIED)
def test_other_flags_give_what_was_said(start: Start, cuda_python: Python, flags: dict[str, Any]):
    said = with_flags(usual(start, cuda_python.path), Flags(**flags))
    assert said is not None
    word, _, facts = start(**flags).expect("result ").partition(" ")
    if said.error:
        assert (word, said.error[:17]) == ("refused", "it does not start")
    else:
        engine = json.loads(facts)
        assert word == "started"
        if said.is_exact:
            assert (said.blocks, said.tokens) == (engine["blocks"], engine["tokens"])
        else:
            assert said.blocks == pytest.approx(engine["blocks"], abs=TABLES_BLOCKS)
        assert said.is_exact or "max_model_len" in flags


ANOTHER_RUN = {
    "two devices": ({}, {"tensor_parallel_size": 2}, {"disable_custom_all_reduce": True}),
    "without CUDA graphs": (MODES["CUDA graphs"], {"enforce_eager": True}, {}),
}


@pytest.mark.parametrize(("before", "flags", "more"), ANOTHER_RUN.values(), ids=ANOTHER_RUN)
def test_flags_that_make_another_profiling_run_give_about_what_was_said(
    start: Start, cuda_python: Python, before: dict[str, Any], flags: dict[str, Any], more: dict[str, Any]
):
    child = start(**in_version(before, version_of(cuda_python.path)))
    child.expect("result started ")
    with child.attach() as client:
        serving = client.statistics().serving
    child.end()
    said = with_flags(serving, Flags(**flags))
    engine = json.loads(start(**flags, **more).expect("result started "))
    assert not said.is_exact
    assert said.blocks == pytest.approx(engine["blocks"], rel=0.01)

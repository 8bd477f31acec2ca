"""What `gputui check vllm serve` says before a server starts, and what a real vLLM on a fake GPU then has.

Needs an interpreter with vLLM in `GPUTUI_TEST_TORCH`. One program starts all of the settings, some half minute each.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gputui.explain.serving.ahead.command_line import ServeFlags
from gputui.explain.serving.ahead.device import Device
from gputui.explain.serving.ahead.estimates import Between
from gputui.explain.serving.ahead.start import Verdict, start_of
from gputui.model.checkpoint import Checkpoint
from tests.attach.children import Child, Python

pytestmark = [
    pytest.mark.packages("vllm"),
    pytest.mark.timeout(3600),
]  # eleven starts, of some minutes on a busy machine

STARTS = Path(__file__).parent / "programs" / "vllm_starts.py"
OF_ALL: dict[str, Any] = {"torch_dtype": "bfloat16", "hidden_act": "silu", "rms_norm_eps": 1e-5}
LLAMA = OF_ALL | {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072,
}  # fmt: skip
QWEN2 = OF_ALL | {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
    "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4, "vocab_size": 152064,
    "max_position_embeddings": 32768, "tie_word_embeddings": False,
}  # fmt: skip
MIXTRAL = OF_ALL | {
    "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 1024, "intermediate_size": 3584,
    "num_attention_heads": 16, "num_hidden_layers": 16, "num_key_value_heads": 8, "vocab_size": 32000,
    "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 32768, "sliding_window": None,
    "tie_word_embeddings": False,
}  # fmt: skip
GEMMA2 = OF_ALL | {
    "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_size": 2304, "intermediate_size": 9216,
    "num_attention_heads": 8, "num_hidden_layers": 26, "num_key_value_heads": 4, "head_dim": 256,
    "vocab_size": 256000, "sliding_window": 4096, "max_position_embeddings": 8192,
    "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 256,
}  # fmt: skip
FIRST_RUNNER = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
EAGER: dict[str, Any] = {"enforce_eager": True, "max_num_seqs": 256, "max_num_batched_tokens": 8192}


class Setting(NamedTuple):
    """A model, flags, and variables of the environment."""

    model: dict[str, Any]
    flags: dict[str, Any]
    variables: dict[str, str] = FIRST_RUNNER


SETTINGS = {
    "many requests": Setting(LLAMA, EAGER | {"max_model_len": 32768, "max_num_seqs": 1024}),
    "the second model runner": Setting(LLAMA, EAGER | {"max_model_len": 32768, "max_num_seqs": 1024}, {}),
    "few requests, a cache of 8 bits": Setting(LLAMA, EAGER | {"max_num_seqs": 128, "kv_cache_dtype": "fp8"}),
    "large batches": Setting(QWEN2, EAGER | {"max_num_batched_tokens": 16384}),
    "experts": Setting(MIXTRAL, EAGER),
    "every second layer with a window": Setting(GEMMA2, EAGER),
    "weights made smaller as they are loaded": Setting(LLAMA, EAGER | {"max_model_len": 8192, "quantization": "fp8"}),
    "half of the device, larger blocks": Setting(LLAMA, EAGER | {"gpu_memory_utilization": 0.5, "block_size": 32}),
    "requests too long": Setting(LLAMA, EAGER | {"gpu_memory_utilization": 0.3}),
    "nothing left": Setting(LLAMA, EAGER | {"gpu_memory_utilization": 0.15}),
    "longer than the model": Setting(LLAMA, EAGER | {"max_model_len": 200_000}),
}


@pytest.fixture
def server(cuda_python: Python) -> Child:
    return cuda_python.run([cuda_python.path, str(STARTS)])


def test_each_start_is_what_was_said(server: Child):
    wrong = [f"{name}: {difference}" for name, one in SETTINGS.items() if (difference := differs(server, one))]
    assert wrong == []


def differs(server: Child, setting: Setting) -> str:
    """What a real start has that was not said; "" without a difference."""
    server.say(json.dumps({"model": setting.model, "flags": setting.flags, "environment": setting.variables}))
    word, _, text = server.expect("result ").partition(" ")
    real = json.loads(text)
    total = Between(TOTAL_BYTES, TOTAL_BYTES)
    said = start_of(
        Checkpoint("model", "model", setting.model),
        ServeFlags(model="model", **setting.flags),
        Device("H100", total),
        has_second_runner=not setting.variables,
    )
    if word == "refused":
        is_said = said.verdict is Verdict.REFUSES and said.error[:40] in real
        return "" if is_said else f"{said.verdict.value}, {said.error!r}, and not {real!r}"
    facts = {
        "bytes of a block": (said.cache.bytes_per_block, real["bytes"] // real["blocks"]),
        "layers of the groups": ([group.layers for group in said.cache.groups], real["groups"]),
        "it starts": (said.verdict, Verdict.STARTS),
        "blocks": (said.worst.blocks <= real["blocks"] <= said.best.blocks, True),
        "weights": (said.parts["weights"].least <= real["weights"] <= said.parts["weights"].most, True),
        "the device": (TOTAL_BYTES, real["total"]),
    }
    return ", ".join(f"{name}: {ours} and not {theirs}" for name, (ours, theirs) in facts.items() if ours != theirs)


TOTAL_BYTES = 84_986_036_224
"""Of the fake device, as cudaMemGetInfo has it."""

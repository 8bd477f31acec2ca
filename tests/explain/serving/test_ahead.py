"""A server that has not started: its weights, its cache and its errors, from the configuration of real models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gputui.errors import GputuiError, UsageError
from gputui.explain.documents.serving_ahead import start_document
from gputui.explain.serving.ahead.architecture import architecture_of
from gputui.explain.serving.ahead.cache import cache_plan
from gputui.explain.serving.ahead.command_line import ServeFlags, serve_flags
from gputui.explain.serving.ahead.device import device_by_name
from gputui.explain.serving.ahead.elements import elements_of
from gputui.explain.serving.ahead.start import Start, Verdict, start_of
from gputui.explain.serving.ahead.words import headline, length_words, other_flags
from gputui.explain.serving.capacity import LONGEST
from gputui.model.checkpoint import Checkpoint, StoredTensors
from gputui.units import GIB, MIB

LLAMA_8B: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256, "torch_dtype": "bfloat16",
    "max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0},
}  # fmt: skip
LLAMA_70B = LLAMA_8B | {
    "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64, "num_hidden_layers": 80,
}  # fmt: skip
MIXTRAL = LLAMA_8B | {"vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2}
DEEPSEEK_V3: dict[str, Any] = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "num_attention_heads": 128,
    "num_hidden_layers": 61, "num_key_value_heads": 128, "vocab_size": 129280, "n_routed_experts": 256,
    "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "first_k_dense_replace": 3,
    "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
}  # fmt: skip
QWEN3_30B_A3B: dict[str, Any] = {
    "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768,
    "num_attention_heads": 32, "num_hidden_layers": 48, "num_key_value_heads": 4, "head_dim": 128,
    "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8,
}  # fmt: skip
GEMMA2_9B: dict[str, Any] = {
    "model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14336, "num_attention_heads": 16,
    "num_hidden_layers": 42, "num_key_value_heads": 8, "head_dim": 256, "vocab_size": 256000, "sliding_window": 4096,
}  # fmt: skip
GEMMA3_4B: dict[str, Any] = {
    "model_type": "gemma3", "vision_config": {}, "text_config": {
        "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
        "sliding_window": 1024,
    },
}  # fmt: skip

PARAMETERS = {
    "Llama 3.1 8B": (LLAMA_8B, 8_030_261_248),
    "Llama 3.1 70B": (LLAMA_70B, 70_553_706_496),
    "Mixtral 8x7B": (MIXTRAL, 46_702_792_704),
    "DeepSeek V3": (DEEPSEEK_V3, 671_026_404_352),
    "Qwen3 30B A3B": (QWEN3_30B_A3B, 30_532_122_624),
    "Gemma 2 9B": (GEMMA2_9B, 9_241_705_984),
}


@pytest.mark.parametrize(("configuration", "published"), PARAMETERS.values(), ids=PARAMETERS)
def test_parameters_are_those_that_were_published(configuration: dict[str, Any], published: int):
    counted = elements_of(architecture_of(configuration, "model"), 1).total
    assert counted == pytest.approx(published, rel=1e-4)


LINEAR = LLAMA_8B | {"layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 8}


def test_layers_that_keep_a_state_have_weights_and_no_part_in_the_cache():
    model, like = (architecture_of(configuration, "model") for configuration in (LINEAR, LLAMA_8B))
    assert elements_of(model, 1) == elements_of(like, 1)
    assert [group.layers for group in cache_plan(model, "bfloat16", "auto", None, 1).groups] == [8]
    assert "keep a state for each request" in model.doubts[0]


def test_a_model_without_a_kv_cache_is_a_sentence():
    with pytest.raises(GputuiError, match=r"No layer of model has a KV cache\. .* attention in some"):
        architecture_of(LLAMA_8B | {"layer_types": ["linear_attention"] * 32}, "model")


TOKEN_BYTES = {
    "grouped heads": (LLAMA_8B, "auto", 1, 2 * 32 * 8 * 128 * 2),
    "in 8 bits": (LLAMA_8B, "fp8", 1, 2 * 32 * 8 * 128),
    "on four devices": (LLAMA_8B, "auto", 4, 2 * 32 * 2 * 128 * 2),
    "on more devices than heads": (LLAMA_8B, "auto", 16, 2 * 32 * 1 * 128 * 2),
    "latent attention": (DEEPSEEK_V3, "auto", 1, 61 * (512 + 64) * 2),
    "latent attention is on each device": (DEEPSEEK_V3, "auto", 8, 61 * (512 + 64) * 2),
    "every second layer with a window": (GEMMA2_9B, "auto", 1, 2 * 42 * 8 * 256 * 2),
}


@pytest.mark.parametrize(("configuration", "kv_dtype", "devices", "each"), TOKEN_BYTES.values(), ids=TOKEN_BYTES)
def test_a_token_takes_what_its_heads_say(configuration: dict[str, Any], kv_dtype: str, devices: int, each: int):
    plan = cache_plan(architecture_of(configuration, "model"), "bfloat16", kv_dtype, None, devices)
    assert plan.bytes_per_token == each


def test_layers_of_two_kinds_share_tables_as_in_the_server():
    model = architecture_of(GEMMA3_4B, "model")
    assert [window is None for window in model.windows].count(True) == 5
    groups = cache_plan(model, "bfloat16", "auto", None, 1).groups
    assert [(group.layers, group.sliding_window) for group in groups] == [(5, 1024)] * 5 + [(4, 1024), (5, None)]


def test_where_all_layers_have_a_window_the_length_is_not_the_trouble():
    start = started(LLAMA_8B | {"sliding_window": 4096})
    assert start.worst.longest == start.best.longest == LONGEST
    assert length_words(start) == ""
    assert start_document(start, ())["least"]["longest_request_tokens"] is None


def model_of(configuration: dict[str, Any], **stored: Any) -> Checkpoint:
    return Checkpoint("model", "model", configuration, **stored)


def started(configuration: dict[str, Any], gpu: str = "H100", mib: int = 81_559, **flags: Any) -> Start:
    return start_of(model_of(configuration), ServeFlags(model="model", **flags), device_by_name(gpu, mib * MIB))


def test_what_a_real_start_measured_is_in_the_ranges():
    """vLLM#10511, Llama 3 8B on an H100: CUDA has 79.22 GiB, weights take 14.96 GiB, activations 1.26 GiB."""
    asked = {"max_model_len": 8192, "max_num_seqs": 256, "max_num_batched_tokens": 8192}
    start = started(LLAMA_8B, gpu_memory_utilization=0.9, **asked)
    assert start.device.total_bytes.least < 79.22 * GIB < start.device.total_bytes.most
    assert start.weights.bytes == pytest.approx(14.96 * GIB, rel=2e-3)
    assert start.parts["activations"].least < 1.26 * GIB < start.parts["activations"].most


VERDICTS: dict[str, tuple[dict[str, Any], dict[str, Any], Verdict, str]] = {
    "it fits": (LLAMA_8B, {}, Verdict.STARTS, ""),
    "the weights alone do not": (LLAMA_70B, {}, Verdict.REFUSES, "CUDA out of memory, while the weights are loaded"),
    "nothing left": (LLAMA_8B, {"gpu_memory_utilization": 0.15}, Verdict.REFUSES, "No available memory for the cache"),
    "requests too long": (
        LLAMA_8B, {"gpu_memory_utilization": 0.35}, Verdict.REFUSES,
        "To serve at least one request with the model's max seq len (131072), (16.0 GiB KV cache is needed",
    ),
    "as long as fits": (LLAMA_8B, {"gpu_memory_utilization": 0.35, "max_model_len": 0}, Verdict.STARTS, ""),
    "longer than the model": (
        LLAMA_8B, {"max_model_len": 200_000}, Verdict.REFUSES,
        "User-specified max_model_len (200000) is greater than the derived max_model_len (",
    ),
    "heads that cannot be divided": (
        LLAMA_8B, {"tensor_parallel_size": 3}, Verdict.REFUSES,
        "Total number of attention heads (32) must be divisible by tensor parallel size (3).",
    ),
    "all of the device": (LLAMA_8B, {"gpu_memory_utilization": 0.999}, Verdict.REFUSES, "Free memory on device cuda:0"),
    "not quantised in that way": (LLAMA_8B, {"quantization": "awq"}, Verdict.REFUSES, "Cannot find the config file"),
    "quantised in another way": (
        LLAMA_8B | {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}},
        {"quantization": "awq"}, Verdict.REFUSES, "Quantization method specified in the model config (gptq)",
    ),
    "fewer tokens than requests": (
        LLAMA_8B, {"max_num_seqs": 512, "max_num_batched_tokens": 256}, Verdict.REFUSES, "max_num_batched_tokens (256)",
    ),
    "within the estimates": (LLAMA_8B, {"gpu_memory_utilization": 0.43}, Verdict.NOT_SURE, "To serve at least one"),
}  # fmt: skip


@pytest.mark.parametrize(("configuration", "flags", "verdict", "error"), VERDICTS.values(), ids=VERDICTS)
def test_whether_it_starts(configuration: dict[str, Any], flags: dict[str, Any], verdict: Verdict, error: str):
    start = started(configuration, **flags)
    assert start.verdict is verdict
    assert start.error.startswith(error)
    assert bool(start.error) == bool(error)


def test_two_devices_carry_what_one_does_not():
    start = started(LLAMA_70B, tensor_parallel_size=4, max_model_len=8192)
    assert start.verdict is Verdict.STARTS
    assert headline(start).startswith("It starts on 4 x H100: ")
    assert start.weights.bytes == pytest.approx(70_553_706_496 * 2 / 4, rel=1e-3)


QUANTISED = {
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 128}, 5.34),
    "fp8": ({"quant_method": "fp8"}, 8.46),
    "compressed": (
        {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8}}}},
        8.46,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("quantization", "gib"), QUANTISED.values(), ids=QUANTISED)
def test_quantised_weights_without_their_files(quantization: dict[str, Any], gib: float):
    start = started(LLAMA_8B | {"quantization_config": quantization}, max_model_len=8192)
    assert start.weights.bytes / GIB == pytest.approx(gib, rel=0.02)


def test_an_unknown_quantisation_needs_the_index():
    configuration = LLAMA_8B | {"quantization_config": {"quant_method": "hqq"}}
    with pytest.raises(GputuiError, match=r"model\.safetensors\.index\.json"):
        started(configuration)
    flags, device = ServeFlags(model="model"), device_by_name("H100", 81_559 * MIB)
    start = start_of(model_of(configuration, stored_bytes=5 * GIB), flags, device)
    assert start.weights.bytes == 5 * GIB


def test_files_count_more_than_sizes_in_the_configuration():
    flags, device = ServeFlags(model="model", dtype="bfloat16"), device_by_name("H100", 81_559 * MIB)
    tensors = StoredTensors({"F32": 6_000_000_000, "F8_E4M3": 1_000_000_000}, {"F32": 500_000_000}, {"F32": 1000})
    start = start_of(model_of(LLAMA_8B, tensors=tensors, stored_bytes=1), flags, device)
    assert start.weights.bytes == 2 * 6_500_001_000 + 1_000_000_000


def test_what_else_could_be_tried_leaves_out_what_holds_already():
    start = started(LLAMA_8B, kv_cache_dtype="fp8", gpu_memory_utilization=0.97, quantization="fp8")
    assert [words for words, _ in other_flags(start)] == ["--tensor-parallel-size 2"]


LINES = {
    "a folder and a length": (["./m", "--max-model-len", "32k"], {"model": "./m", "max_model_len": 32_000}),
    "binary thousands": (["m", "--max-model-len=32K"], {"model": "m", "max_model_len": 32_768}),
    "an underscore": (["m", "--max_num_seqs", "8"], {"model": "m", "max_num_seqs": 8}),
    "short": (["m", "-tp", "2", "-q", "fp8"], {"model": "m", "tensor_parallel_size": 2, "quantization": "fp8"}),
    "the length that fits": (["m", "--max-model-len", "-1"], {"model": "m", "max_model_len": 0}),
    "a flag": (["--model", "m", "--enforce-eager"], {"model": "m", "enforce_eager": True}),
    "others": (["m", "--port", "80", "--no-log", "-x"], {"model": "m", "others": ("--port", "--no-log", "--x")}),
    "a file": (["--log-config-file", "log.json", "m"], {"model": "m", "others": ("--log-config-file",)}),
    "endpoints": (
        ["--disable-access-log-for-endpoints", "/health", "m"],
        {"model": "m", "others": ("--disable-access-log-for-endpoints",)},
    ),
    "several values": (
        ["--model", "m", "--served-model-name", "a", "b", "--disable-log-stats"],
        {"model": "m", "others": ("--served-model-name", "--disable-log-stats")},
    ),
    "several for the last": (["m", "--api-key", "a", "b"], {"model": "m", "others": ("--api-key",)}),
    "a switch before the model": (["--disable-log-stats", "m"], {"model": "m", "others": ("--disable-log-stats",)}),
    "apart": (["m", "--enable-lora", "-dp", "4"], {"model": "m", "apart": ("--enable-lora", "--data-parallel-size")}),
}  # fmt: skip


@pytest.mark.parametrize(("words", "flags"), LINES.values(), ids=LINES)
def test_a_command_line_is_read_as_by_the_server(words: list[str], flags: dict[str, Any]):
    assert serve_flags(words) == replace(ServeFlags(), **flags)


WRONG_LINES = {
    "no model": ([], "needs a model"),
    "two models": (["a", "b"], "takes one model"),
    "a model behind a switch": (["a", "--enforce-eager", "b"], "takes one model"),
    "no value": (["m", "--max-model-len"], "--max-model-len needs a value"),
    "no number": (["m", "--max-model-len", "long"], "--max-model-len cannot be 'long'"),
    "more than all": (["m", "--gpu-memory-utilization", "90"], "--gpu-memory-utilization cannot be '90'"),
    "not a number at all": (["m", "--gpu-memory-utilization", "nan"], "cannot be 'nan'"),
    "none": (["m", "-tp", "0"], "--tensor-parallel-size cannot be '0'"),
    "endless": (["m", "--max-num-seqs", "9" * 5000], "--max-num-seqs cannot be '999"),
}


@pytest.mark.parametrize(("words", "cause"), WRONG_LINES.values(), ids=WRONG_LINES)
def test_what_the_server_would_not_take_is_refused(words: list[str], cause: str):
    with pytest.raises(UsageError) as refused:
        serve_flags(words)
    assert cause in str(refused.value)


ABSURD: tuple[Any, ...] = (0, -1, 10**30, 1.5, "many", [8], {}, True, float("nan"))


@pytest.mark.parametrize("value", ABSURD, ids=repr)
@pytest.mark.parametrize(
    "configuration", [LLAMA_8B, DEEPSEEK_V3, GEMMA3_4B["text_config"]], ids=["llama", "mla", "mix"]
)
def test_an_absurd_configuration_is_a_sentence_or_a_figure(configuration: dict[str, Any], value: Any):
    for key in (*configuration, "layer_types", "quantization_config", "sliding_window_pattern", "rope_scaling"):
        outcome = outcome_of({**configuration, key: value})
        if isinstance(outcome, Start):
            assert outcome.worst.kv_bytes <= outcome.best.kv_bytes
        else:
            assert key in outcome or key == "model_type"  # without which others are missing


def outcome_of(configuration: dict[str, Any]) -> Start | str:
    try:
        return started(configuration)
    except GputuiError as error:
        return str(error)

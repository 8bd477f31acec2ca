"""What an inference server did when memory ran out, as its stack shows it, and which of its flags would have helped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gputui.model.attached.allocator import CallSite
from gputui.model.attached.failure import ServerMoment
from gputui.model.attached.serving import Serving, ServingSettings
from gputui.units import format_bytes


class _Doing(NamedTuple):
    """`functions` of the engine's, whose files are below `folder`; a remedy has places for the flags' values.

    `{share}` is the flag that says how much the KV cache takes.
    """

    folder: str
    functions: frozenset[str]
    words: str
    remedy: str


def _doing(folder: str, functions: str, words: str, remedy: str) -> _Doing:
    return _Doing(folder, frozenset(functions.split()), words, remedy)


VLLM, SGLANG = "/vllm/", "/sglang/srt/"

TABLE = (
    _doing(
        VLLM, "_dummy_sampler_run", "in a trial run of vLLM's sampler",
        "Sampling for max_num_seqs{max_num_seqs} requests at once did not fit: a smaller --max-num-seqs needs less."
        " Once the KV cache is there, a lower {share} leaves more room.",
    ),
    _doing(
        VLLM, "capture_model", "while vLLM captured CUDA graphs",
        "CUDA graphs come after the KV cache: a lower {share} leaves them room,"
        " smaller cudagraph_capture_sizes need less, --enforce-eager needs none.",
    ),
    _doing(
        VLLM, "initialize_kv_cache initialize_from_config init_kv_cache", "while vLLM allocated its KV cache",
        "Less was free than it had counted on, as where another process came meanwhile: end that one, or set a lower"
        " {share}.",
    ),
    _doing(
        VLLM, "profile_run determine_available_memory", "in vLLM's profiling run",
        "A forward pass of max_num_batched_tokens{max_num_batched_tokens} did not fit beside the weights: a smaller"
        " --max-num-batched-tokens needs less; for images and video, --limit-mm-per-prompt.",
    ),
    _doing(
        VLLM, "_load_adapter add_adapter add_lora create_lora_manager", "while vLLM loaded a LoRA adapter",
        "Fewer --max-loras or a smaller --max-lora-rank need less; a lower"
        " {share} leaves more room beside the KV cache.",
    ),
    _doing(
        VLLM, "load_model", "while vLLM loaded its weights",
        "The KV cache was not there yet, so no flag of it helps: --tensor-parallel-size over more devices,"
        " --quantization, or a smaller model.",
    ),
    _doing(
        VLLM, "init_device _make_model_runner", "while vLLM made its buffers",
        "Its buffers grow with max_num_batched_tokens{max_num_batched_tokens}, max_num_seqs{max_num_seqs} and"
        " max_model_len{max_model_len}.",
    ),
    _doing(
        VLLM, "execute_model sample_tokens", "while vLLM ran a batch",
        "It needed more than its profiling run had found: a lower {share}"
        " leaves more room; a smaller --max-num-batched-tokens or --max-num-seqs, or no prompt_logprobs, needs less.",
    ),
    _doing(
        SGLANG, "capture init_cuda_graphs init_decode_cuda_graph", "while SGLang captured CUDA graphs",
        "A smaller --mem-fraction-static leaves them room, a smaller --cuda-graph-max-bs needs less,"
        " --disable-cuda-graph needs none.",
    ),
    _doing(
        SGLANG, "load_lora_adapter", "while SGLang loaded a LoRA adapter",
        "A smaller --max-loras-per-batch or --max-lora-rank needs less, a smaller --mem-fraction-static leaves more"
        " room.",
    ),
    _doing(
        SGLANG, "alloc_memory_pool _init_pools", "while SGLang allocated its KV cache",
        "Less was free than --mem-fraction-static was to take: end other processes on the device, or set it lower.",
    ),
    _doing(
        SGLANG, "load_model", "while SGLang loaded its weights",
        "The KV cache was not there yet, so no flag of it helps: --tp over more devices, --quantization, or a smaller"
        " model.",
    ),
    _doing(
        SGLANG, "forward_extend", "while SGLang ran a prefill",
        "A smaller --chunked-prefill-size needs less, a smaller --mem-fraction-static leaves more room.",
    ),
    _doing(
        SGLANG, "forward_decode", "while SGLang ran a batch",
        "A smaller --max-running-requests needs less, a smaller --mem-fraction-static leaves more room.",
    ),
)  # fmt: skip
"""The innermost line of the stack that one of them names counts. Source: vLLM 0.11 to 0.33 and SGLang 0.5.23."""

OF_ITS_PEOPLE = frozenset({"limit", "others", "stuck", "cache"})
"""The kinds of remedies that are in the hands of those who run a server; its code is not."""


def server_moment(stack: Sequence[CallSite], serving: Serving | None) -> ServerMoment | None:
    """What a server did, None where no line of the stack is one that the table knows."""
    found = next((doing for site in stack for doing in TABLE if _is_in(doing, site)), None)
    if found is None:
        return None
    settings = serving.settings if serving else ServingSettings()
    values = {name: _now(getattr(settings, name)) for name in _FLAGS}
    cache_bytes = settings.kv_cache_memory_bytes
    share = f"--gpu-memory-utilization{_now(settings.gpu_memory_utilization)}"
    if cache_bytes:
        share = f"--kv-cache-memory-bytes (now {format_bytes(cache_bytes)})"
    return ServerMoment(found.words, found.remedy.format(share=share, **values))


_FLAGS = ("max_num_seqs", "max_num_batched_tokens", "max_model_len")


def _is_in(doing: _Doing, site: CallSite) -> bool:
    return site.function in doing.functions and doing.folder in site.file


def _now(value: float | None) -> str:
    """What follows the name of a flag; nothing where its value is not known."""
    return "" if value is None else f" (now {value:,})"

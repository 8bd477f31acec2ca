"""What an inference server did when memory ran out, read from its stack, and which of its flags would have helped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gputui.model.attached.allocator import CallSite
from gputui.model.attached.failure import ServerMoment
from gputui.model.attached.serving import Serving, ServingSettings
from gputui.units import format_bytes


class Activity(NamedTuple):
    """What the engine does in one of these `functions`, whose files are below `folder`.

    The remedy has places for the values of flags; `{share}` is the flag that says how much the KV cache takes.
    """

    folder: str
    functions: frozenset[str]
    words: str
    remedy: str


def _activity(folder: str, functions: str, words: str, remedy: str) -> Activity:
    return Activity(folder, frozenset(functions.split()), words, remedy)


VLLM, SGLANG = "/vllm/", "/sglang/srt/"

ACTIVITIES = (
    _activity(
        VLLM, "_dummy_sampler_run", "in a trial run of vLLM's sampler",
        "Sampling for max_num_seqs{max_num_seqs} requests at once did not fit: a smaller --max-num-seqs needs less."
        " Once the KV cache is there, a lower {share} leaves more room.",
    ),
    _activity(
        VLLM, "capture_model", "while vLLM captured CUDA graphs",
        "CUDA graphs come after the KV cache: a lower {share} leaves them room,"
        " smaller cudagraph_capture_sizes need less, --enforce-eager needs none.",
    ),
    _activity(
        VLLM, "initialize_kv_cache initialize_from_config init_kv_cache", "while vLLM allocated its KV cache",
        "Less memory was free than vLLM had planned for, as when another process comes in between: end that process, or"
        " lower {share}.",
    ),
    _activity(
        VLLM, "profile_run determine_available_memory", "in vLLM's profiling run",
        "A forward pass of max_num_batched_tokens{max_num_batched_tokens} did not fit beside the weights: a smaller"
        " --max-num-batched-tokens needs less; for images and video, --limit-mm-per-prompt.",
    ),
    _activity(
        VLLM, "_load_adapter add_adapter add_lora create_lora_manager", "while vLLM loaded a LoRA adapter",
        "Fewer --max-loras or a smaller --max-lora-rank need less; a lower"
        " {share} leaves more room beside the KV cache.",
    ),
    _activity(
        VLLM, "load_model", "while vLLM loaded its weights",
        "The KV cache was not allocated yet, so its flags do not help: use --tensor-parallel-size over more devices,"
        " --quantization, or a smaller model.",
    ),
    _activity(
        VLLM, "init_device _make_model_runner", "while vLLM made its buffers",
        "Its buffers grow with max_num_batched_tokens{max_num_batched_tokens}, max_num_seqs{max_num_seqs} and"
        " max_model_len{max_model_len}.",
    ),
    _activity(
        VLLM, "execute_model sample_tokens", "while vLLM ran a batch",
        "It needed more than its profiling run had found: a lower {share}"
        " leaves more room; a smaller --max-num-batched-tokens or --max-num-seqs, or no prompt_logprobs, needs less.",
    ),
    _activity(
        SGLANG, "capture init_cuda_graphs init_decode_cuda_graph", "while SGLang captured CUDA graphs",
        "A smaller --mem-fraction-static leaves them room, a smaller --cuda-graph-max-bs needs less,"
        " --disable-cuda-graph needs none.",
    ),
    _activity(
        SGLANG, "load_lora_adapter", "while SGLang loaded a LoRA adapter",
        "A smaller --max-loras-per-batch or --max-lora-rank needs less, a smaller --mem-fraction-static leaves more"
        " room.",
    ),
    _activity(
        SGLANG, "alloc_memory_pool _init_pools", "while SGLang allocated its KV cache",
        "Less memory was free than --mem-fraction-static asks for: end other processes on the device, or lower it.",
    ),
    _activity(
        SGLANG, "load_model", "while SGLang loaded its weights",
        "The KV cache was not allocated yet, so its flags do not help: use --tp over more devices, --quantization, or a"
        " smaller model.",
    ),
    _activity(
        SGLANG, "forward_extend", "while SGLang ran a prefill",
        "A smaller --chunked-prefill-size needs less, a smaller --mem-fraction-static leaves more room.",
    ),
    _activity(
        SGLANG, "forward_decode", "while SGLang ran a batch",
        "A smaller --max-running-requests needs less, a smaller --mem-fraction-static leaves more room.",
    ),
)  # fmt: skip
"""The innermost line of the stack whose function is in the table decides. Source: vLLM 0.11 to 0.33, SGLang 0.5.23."""

FOR_OPERATORS = frozenset({"limit", "others", "stuck", "cache"})
"""The kinds of remedies that people who run a server can apply, as they need no change of its code."""


def server_moment(stack: Sequence[CallSite], serving: Serving | None) -> ServerMoment | None:
    """What a server did, None where no line of the stack is in the table."""
    found = next((activity for site in stack for activity in ACTIVITIES if _is_in(activity, site)), None)
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


def _is_in(activity: Activity, site: CallSite) -> bool:
    return site.function in activity.functions and activity.folder in site.file


def _now(value: float | None) -> str:
    """The value of a flag, to follow its name: " (now 256)"; "" where the value is not known."""
    return "" if value is None else f" (now {value:,})"

"""The errors with which vLLM 0.33 refuses to start, in its own words, as far as they follow from flags and sizes."""

from __future__ import annotations

from gputui.explain.serving.ahead.architecture import Architecture
from gputui.explain.serving.ahead.command_line import ServeFlags
from gputui.explain.serving.ahead.quantization import ON_LOADING, SAME
from gputui.model.attached.serving import ServingSettings
from gputui.units import GIB


def refusal_of_flags(model: Architecture, flags: ServeFlags, settings: ServingSettings) -> str:
    """The error for flags that do not fit the model, on any device; "" if they do."""
    devices, length = flags.tensor_parallel_size, flags.max_model_len
    if model.longest and length and length > model.longest:
        return (
            f"User-specified max_model_len ({length}) is greater than the derived max_model_len"
            f" (max_position_embeddings={model.longest} or model_max_length=None in model's config.json)."
        )
    if model.heads % devices:
        return f"Total number of attention heads ({model.heads}) must be divisible by tensor parallel size ({devices})."
    stored, asked = str(model.quantization.get("quant_method") or "").lower(), flags.quantization
    if stored and asked and SAME.get(asked, asked) != SAME.get(stored, stored):
        return (
            f"Quantization method specified in the model config ({stored}) does not match the quantization method"
            f" specified in the `quantization` argument ({asked})."
        )
    if asked and not stored and asked not in ON_LOADING:
        return f"Cannot find the config file for {asked}"
    tokens, seqs = settings.max_num_batched_tokens or 0, settings.max_num_seqs or 0
    if tokens < seqs:
        return f"max_num_batched_tokens ({tokens}) must be greater than or equal to max_num_seqs ({seqs})."
    return ""


def refusal_of_memory(
    free_bytes: int, total_bytes: int, requested_bytes: int, weights_bytes: int, settings: ServingSettings
) -> str:
    """The error on a device with less free memory than is requested, or than the weights take; "" if it is enough."""
    if free_bytes < requested_bytes:
        return (
            f"Free memory on device cuda:0 ({_gib(free_bytes)}/{_gib(total_bytes)} GiB) on startup is less than desired"
            f" GPU memory utilization ({settings.gpu_memory_utilization}, {_gib(requested_bytes)} GiB). Decrease GPU"
            " memory utilization or reduce GPU memory used by other processes."
        )
    if weights_bytes > free_bytes:
        return f"CUDA out of memory, while the weights are loaded ({_gib(weights_bytes)} of {_gib(free_bytes)} GiB)."
    return ""


def refusal_of_cache(usable_bytes: int, needed_bytes: int, longest: int, length: int) -> str:
    """The error for a cache that cannot hold one request of max_model_len; "" if it can."""
    if usable_bytes <= 0:
        return (
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the"
            " engine."
        )
    if needed_bytes <= usable_bytes:
        return ""
    return (
        f"To serve at least one request with the model's max seq len ({length}), ({_gib(needed_bytes)} GiB KV cache"
        f" is needed, which is larger than the available KV cache memory ({_gib(usable_bytes)} GiB). Based on the"
        f" available memory, the estimated maximum model length is {longest}."
    )


def _gib(size_bytes: int) -> str:
    return f"{round(size_bytes / GIB, 2)}"

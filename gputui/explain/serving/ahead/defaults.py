"""vLLM's values of flags that a command line does not give: lengths, numbers of requests, data types.

Source: `EngineArgs.get_batch_defaults` and `_set_default_max_num_seqs_and_batched_tokens_args`, and
`_resolve_auto_dtype`, of vLLM 0.33, for its API server.
"""

from __future__ import annotations

from gputui.errors import UsageError
from gputui.explain.serving.ahead.architecture import Architecture
from gputui.explain.serving.ahead.cache import CachePlan
from gputui.explain.serving.ahead.command_line import ServeFlags
from gputui.explain.serving.ahead.device import Device
from gputui.explain.serving.ahead.quantization import WIDTHS
from gputui.model.attached.serving import ServingSettings
from gputui.units import GIB

UTILIZATION = 0.92
"""gpu_memory_utilization of the newest vLLM; in older ones it is 0.9."""
BATCHES = ((160, 16_384, 1024), (70, 8192, 1024), (0, 2048, 256))
"""From this many GiB of a device on: max_num_batched_tokens, max_num_seqs."""
SMALL_ALL_THE_SAME, WITHOUT_BFLOAT16 = ("a100",), ("t4", "v100")
LENGTH = 2048
"""max_model_len of a model whose configuration names no length."""


def settings_of(
    model: Architecture, flags: ServeFlags, device: Device, cache: CachePlan, dtype: str, *, has_second_runner: bool
) -> ServingSettings:
    """The flags with vLLM's defaults filled in."""
    length = flags.max_model_len or model.longest or LENGTH
    tokens, seqs = _batch(device)
    seqs = flags.max_num_seqs or seqs
    tokens = flags.max_num_batched_tokens or min(seqs * length, tokens)
    return ServingSettings(
        model=flags.model,
        dtype=dtype,
        quantization=flags.quantization,
        gpu_memory_utilization=flags.gpu_memory_utilization or UTILIZATION,
        max_model_len=length,
        longest_of_model=model.longest,
        max_num_seqs=seqs if flags.max_num_seqs else min(seqs, tokens),
        max_num_batched_tokens=tokens,
        block_size=cache.groups[0].block_size,
        kv_cache_dtype=flags.kv_cache_dtype or "auto",
        kv_cache_memory_bytes=flags.kv_cache_memory_bytes,
        enforce_eager=flags.enforce_eager,
        use_v2_model_runner=has_second_runner,
        tensor_parallel_size=flags.tensor_parallel_size,
    )


def dtype_of(model: Architecture, flags: ServeFlags, device: Device) -> str:
    """The data type of weights that are not quantised. Raises UsageError for a type that vLLM does not have."""
    asked = flags.dtype or "auto"
    if asked != "auto":
        if asked not in WIDTHS:
            cause = f"--dtype cannot be {asked!r}."
            raise UsageError(cause, f"It is auto, {', '.join(WIDTHS)}.")
        return {"half": "float16", "float": "float32"}.get(asked, asked)
    preferred = "float16" if device.name.lower().startswith(WITHOUT_BFLOAT16) else "bfloat16"
    is_taken = model.dtype in WIDTHS and WIDTHS[model.dtype] == WIDTHS["float16"]
    return preferred if not is_taken or (model.dtype == "bfloat16" and preferred == "float16") else model.dtype


def _batch(device: Device) -> tuple[int, int]:
    """vLLM's max_num_batched_tokens and max_num_seqs on a device."""
    is_small = device.name.lower().startswith(SMALL_ALL_THE_SAME)
    size = 0 if is_small else device.total_bytes.most / GIB
    return next((tokens, seqs) for least, tokens, seqs in BATCHES if size >= least)

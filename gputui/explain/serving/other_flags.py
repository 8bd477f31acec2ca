"""What a server would have with other flags: its own arithmetic again, from what it measured when it started.

Source: `request_memory`, `determine_available_memory`, `get_kv_cache_configs` and `_check_enough_kv_cache_memory` of
vLLM 0.33. Versions without `consumed_bytes` (0.11, 0.20) do not count what they allocate beside weights before the
profiling run, such as the tables of blocks. Flags that change this run (max_num_batched_tokens, max_num_seqs) cannot be
tried here. For enforce_eager and tensor_parallel_size the result is about right: the run would differ by little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from gputui.explain.serving.capacity import NULL_BLOCKS, blocks_of_request, is_exact, longest_request, tokens_in
from gputui.model.attached.serving import DTYPE_BYTES, KvGroup, Serving, ServingSettings
from gputui.units import format_bytes

CACHE_DTYPES = {"fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "auto": 0, "float16": 2, "bfloat16": 2, "half": 2, "float": 4}
"""Bytes of an element by kv_cache_dtype; 0: as in the model's data type."""
TABLE_ENTRY_BYTES = 4
TABLES_MATTER_BYTES = 1 << 20
"""A difference in tables from which on a result is approximate: less vanishes in PyTorch's segments."""


@dataclass(frozen=True, slots=True)
class Flags:
    """Flags to try; None leaves a flag as it is. `device_total_bytes` is another device's memory, by cudaMemGetInfo."""

    gpu_memory_utilization: float | None = None
    max_model_len: int | None = None
    block_size: int | None = None
    kv_cache_dtype: str | None = None
    tensor_parallel_size: int | None = None
    enforce_eager: bool | None = None
    device_total_bytes: int | None = None

    @property
    def words(self) -> str:
        """The flags as a user writes them."""
        words = [f"{name}={str(value).lower()}" for name in NAMES if (value := getattr(self, name)) is not None]
        if self.device_total_bytes is not None:
            words.append(f"a device of {format_bytes(self.device_total_bytes)}")
        return ", ".join(words)


NAMES = tuple(field.name for field in fields(Flags) if field.name != "device_total_bytes")
"""The flags of a server that can be tried."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a server with these flags would have on each device; `error` is why it would not start, "" if it would.

    `longest` is the largest max_model_len with which it starts. `is_exact`: the figures are exact to the block.
    """

    flags: Flags
    kv_bytes: int
    blocks: int
    tokens: int
    longest: int
    error: str
    is_exact: bool


def with_flags(serving: Serving, flags: Flags) -> Result | None:
    """The result of other flags; None where the engine does not say the figures that it would follow from."""
    profile, cache, settings = serving.profile, serving.cache, serving.settings
    each = cache.bytes_per_block
    if not each or profile.kv_available_bytes is None or not settings.max_model_len:
        return None
    groups, each = _other_ranks(serving, flags, *_other_cache(serving, flags, each))
    if each <= 0:
        return None
    asked = replace(
        settings,
        max_model_len=flags.max_model_len or settings.max_model_len,
        block_size=flags.block_size or settings.block_size,
    )
    tables = _tables_bytes(asked, groups) - _tables_bytes(settings, cache.groups)
    has_other_tables = abs(tables) >= TABLES_MATTER_BYTES and profile.consumed_bytes is not None
    available = profile.kv_available_bytes + _more_requested(serving, flags) - (tables if has_other_tables else 0)
    is_other_run = _is_other_run(settings, flags)
    available += _without_graphs(serving, flags) + _of_other_ranks(serving, flags)
    blocks = max(0, available // each)
    longest = (longest_request(blocks, groups, asked) if blocks else 0) or 0
    return Result(
        flags=flags,
        kv_bytes=max(0, available),
        blocks=blocks,
        tokens=tokens_in(blocks, groups, asked) or 0,
        longest=longest,
        error=_too_little_free(serving, flags) or _too_small(available, each, groups, asked, longest),
        is_exact=is_exact(cache) and not has_other_tables and not is_other_run,
    )


def _tables_bytes(settings: ServingSettings, groups: tuple[KvGroup, ...]) -> int:
    """The bytes of the tables of blocks, and with vLLM's second model runner of the tokens of each request."""
    rows, length = settings.max_num_seqs or 0, settings.max_model_len or 0
    columns = sum(-(-length // group.block_size) for group in groups if group.block_size and group.block_size > 0)
    return rows * (columns + (length if settings.use_v2_model_runner else 0)) * TABLE_ENTRY_BYTES


def _other_cache(serving: Serving, flags: Flags, each: int) -> tuple[tuple[KvGroup, ...], int]:
    """The groups and the bytes of a block with another block_size or kv_cache_dtype; `each` are the bytes now."""
    groups = serving.cache.groups
    if flags.block_size:
        now = groups[0].block_size if groups else None
        each = each * flags.block_size // now if now else each
        groups = tuple(replace(group, block_size=flags.block_size) for group in groups)
    if flags.kv_cache_dtype is not None and groups:
        width = CACHE_DTYPES.get(flags.kv_cache_dtype, 0) or DTYPE_BYTES.get(serving.settings.dtype or "", 0)
        before = DTYPE_BYTES.get(groups[0].dtype or "", 0)
        if width and before:
            each = each * width // before
    return groups, each


def _other_ranks(
    serving: Serving, flags: Flags, groups: tuple[KvGroup, ...], each: int
) -> tuple[tuple[KvGroup, ...], int]:
    """The groups and the bytes of a block with another tensor_parallel_size; a head is not divided."""
    now, ranks = serving.settings.tensor_parallel_size or 1, flags.tensor_parallel_size
    heads = groups[0].heads if groups else None
    if not ranks or not heads:
        return groups, each
    there = [replace(group, heads=max(1, (group.heads or 0) * now // ranks)) for group in groups]
    return tuple(there), each * (there[0].heads or 1) // heads


def _of_other_ranks(serving: Serving, flags: Flags) -> int:
    """By how much another tensor_parallel_size makes the weights on each device smaller; NCCL's memory is not known."""
    weights, ranks = serving.profile.weights_bytes, flags.tensor_parallel_size
    return weights - weights * (serving.settings.tensor_parallel_size or 1) // ranks if weights and ranks else 0


def _without_graphs(serving: Serving, flags: Flags) -> int:
    """What vLLM (0.17 and newer) reserves for CUDA graphs before it allocates the cache, if enforce_eager is tried."""
    return (serving.profile.graphs_estimate_bytes or 0) if flags.enforce_eager else 0


def _is_other_run(settings: ServingSettings, flags: Flags) -> bool:
    """Whether the profiling run would be another one, so that the result is only about right."""
    is_eager = bool(flags.enforce_eager) and not settings.enforce_eager
    return is_eager or flags.tensor_parallel_size not in (None, settings.tensor_parallel_size or 1)


def _requested(total: int, utilization: float) -> int:
    return math.ceil(total * utilization)


def _more_requested(serving: Serving, flags: Flags) -> int:
    """How many more bytes the server would use, all of them for the cache: its other memory stays as measured."""
    profile, settings = serving.profile, serving.settings
    utilization = flags.gpu_memory_utilization or settings.gpu_memory_utilization
    total = flags.device_total_bytes or profile.device_total_bytes
    if settings.kv_cache_memory_bytes or profile.requested_bytes is None or not utilization or not total:
        return 0
    return _requested(total, utilization) - profile.requested_bytes


def _too_little_free(serving: Serving, flags: Flags) -> str:
    """The error of a server that finds less free memory than gpu_memory_utilization asks for, "" if it finds enough."""
    profile = serving.profile
    total, free = profile.device_total_bytes, profile.free_before_bytes
    utilization = flags.gpu_memory_utilization or serving.settings.gpu_memory_utilization
    if not total or not free or not utilization:
        return ""
    other_total = flags.device_total_bytes or total
    free += other_total - total
    wanted = _requested(other_total, utilization)
    if free >= wanted:
        return ""
    return (
        f"it does not start: of {format_bytes(other_total)}, {format_bytes(free)} are free on startup, less than"
        f" gpu_memory_utilization={utilization:g} asks for ({format_bytes(wanted)})"
    )


def _too_small(available: int, each: int, groups: tuple[KvGroup, ...], settings: ServingSettings, longest: int) -> str:
    """The error of a server whose cache cannot hold one request of max_model_len, "" if it can."""
    if available <= NULL_BLOCKS * each:
        return "it does not start: no memory is left for the blocks of the KV cache"
    length = settings.max_model_len or 0
    needed = blocks_of_request(groups, length, settings)
    if needed is None or needed * each <= available - NULL_BLOCKS * each:
        return ""
    return (
        f"it does not start: one request of {length:,} tokens needs {format_bytes(needed * each)} of KV cache, there"
        f" are {format_bytes(available)}; {longest:,} tokens fit"
    )

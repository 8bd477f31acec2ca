"""An inference server as it describes itself: its flags, its profiling run, its KV cache, its requests.

Field names are the engine's. Each value is what the engine's objects hold, None where this version lacks it or has it
elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

DTYPE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "uint8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "int8": 1}
"""Bytes of an element of the data types of weights and caches."""


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """The engine's flags in force; `longest_of_model` is the longest sequence the model was made for, in tokens."""

    model: str | None = None
    dtype: str | None = None
    quantization: str | None = None
    gpu_memory_utilization: float | None = None
    max_model_len: int | None = None
    longest_of_model: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    block_size: int | None = None
    kv_cache_dtype: str | None = None
    kv_cache_memory_bytes: int | None = None
    num_gpu_blocks_override: int | None = None
    enforce_eager: bool | None = None
    use_v2_model_runner: bool | None = None
    enable_prefix_caching: bool | None = None
    enable_sleep_mode: bool | None = None
    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    context_parallel_size: int | None = None


@dataclass(frozen=True, slots=True)
class ServingProfile:
    """What the engine measured when it started, before it allocated the cache.

    `device_total_bytes` and `free_before_bytes` are cudaMemGetInfo's, before the weights were loaded. The engine was to
    use `requested_bytes` of the device (gpu_memory_utilization). After the profiling run `consumed_bytes` were gone; at
    its peak it needed `activation_peak_bytes` more, with the estimate for graphs. `kv_available_bytes` were left.
    """

    device_total_bytes: int | None = None
    free_before_bytes: int | None = None
    requested_bytes: int | None = None
    weights_bytes: int | None = None
    consumed_bytes: int | None = None
    activation_peak_bytes: int | None = None
    graphs_estimate_bytes: int | None = None
    kv_available_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class KvGroup:
    """Layers that share a block table; `block_size` is in tokens, `heads` are the KV heads on this device."""

    layers: int | None = None
    block_size: int | None = None
    heads: int | None = None
    head_size: int | None = None
    head_size_v: int | None = None
    dtype: str | None = None
    sliding_window: int | None = None

    @property
    def block_bytes(self) -> int:
        """Bytes of a block in all layers together; 0 where a field or the size of the data type is not known."""
        width = DTYPE_BYTES.get(self.dtype or "", 0)
        sizes = (self.head_size or 0) + (self.head_size_v or self.head_size or 0)
        return (self.layers or 0) * (self.block_size or 0) * (self.heads or 0) * sizes * width


@dataclass(frozen=True, slots=True)
class KvTensor:
    """An allocation for layers of the cache, as the engine planned it.

    With `shared_by` (a number of layers), `size_bytes` is the size of an allocation for these layers; with `layers`, it
    is the size of the one allocation behind the whole cache.
    """

    size_bytes: int | None = None
    layers: int | None = None
    shared_by: int | None = None


@dataclass(frozen=True, slots=True)
class KvCache:
    """The KV cache as it was allocated.

    `block_bytes` are those of a block in all layers, where the engine tells them instead of `tensors`.
    """

    blocks: int | None = None
    groups: tuple[KvGroup, ...] = ()
    tensors: tuple[KvTensor, ...] = ()
    block_bytes: int | None = None

    @property
    def size_bytes(self) -> int | None:
        """The size of the cache, None where it does not follow from what the engine tells."""
        sizes = [tensor.size_bytes for tensor in self.tensors if tensor.size_bytes]
        if not sizes:
            each = self.block_bytes or (self.groups[0].block_bytes if len(self.groups) == 1 else 0)
            return self.blocks * each if self.blocks and each else None
        return sum(sizes) if any(tensor.shared_by for tensor in self.tensors) else max(sizes)

    @property
    def bytes_per_block(self) -> int | None:
        """Bytes of a block in all layers together; None where they are not known."""
        size_bytes = self.size_bytes
        return size_bytes // self.blocks if size_bytes and self.blocks else None

    @property
    def layers(self) -> int:
        """How many layers have keys and values in the cache."""
        return sum(group.layers or 0 for group in self.groups)


@dataclass(frozen=True, slots=True)
class KvUse:
    """The cache and the requests at the moment.

    `null_blocks` of the `blocks` are never used (vLLM has one). `prefix_blocks` counts the blocks, in use or free, that
    hold a prefix of earlier requests. Of the running requests, `requests_read` were read: `tokens`, `longest_tokens`
    and `preemptions` are those of these requests.
    """

    blocks: int | None = None
    free_blocks: int | None = None
    prefix_blocks: int | None = None
    running: int | None = None
    waiting: int | None = None
    requests_read: int = 0
    tokens: int = 0
    longest_tokens: int = 0
    preemptions: int | None = None
    null_blocks: int = 1


@dataclass(frozen=True, slots=True)
class Serving:
    """An engine in the attached process; `role` says which process of the server that is: "engine core", "worker"."""

    name: str
    version: str
    role: str
    settings: ServingSettings = ServingSettings()
    profile: ServingProfile = ServingProfile()
    cache: KvCache = KvCache()
    use: KvUse = KvUse()


@dataclass(frozen=True, slots=True)
class ServerPage:
    """What a server says on its page of metrics, as sums over its engines; None for what the page does not have.

    `kv_use_share` is the mean share of the KV cache that is in use, from 0 to 1. Since the server started,
    `prefix_queried_tokens` were looked up in the prefix cache, and `prefix_hit_tokens` of them found; SGLang has a
    `prefix_hit_share`.
    """

    engine: str
    pid: int
    port: int
    running: float | None = None
    waiting: float | None = None
    kv_use_share: float | None = None
    prefix_queried_tokens: float | None = None
    prefix_hit_tokens: float | None = None
    prefix_hit_share: float | None = None
    preemptions: float | None = None

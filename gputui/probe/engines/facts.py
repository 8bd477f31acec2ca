"""What is read where in an engine's objects: the only table to change for another version, or another engine.

A fact is None if none of its places has a value of its kind. A place is a path of attributes that begins with the name
of an object in `classes`. `#` at its end asks for the number of elements; `*` in it stands for the only element of a
list or dictionary. A place with ` + ` is a sum, of which each part must be there, and ` / ` in a part divides whole
numbers. Where versions differ, the newest place comes first.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Tuple

Places = Tuple[str, ...]
"""They are tried one after the other."""
Facts = Dict[str, Any]
"""By the name of a field in `model.attached.serving`: (places, kind of value), or the facts of a class inside."""


class EngineFacts(NamedTuple):
    """An engine: how it is recognised, and what is read of it.

    `modules`: at least one of them is imported once the engine runs. `classes`: the objects with which places begin, by
    name: the module and the name of the object's class or of a base. `packages`: the search for these objects reads
    only attributes of these packages' and the program's objects. `among`: places of objects that the search missed.
    """

    name: str
    version: str
    modules: Places
    packages: Places
    classes: dict[str, tuple[str, str]]
    leading: str
    """The name of the object at which the search ends."""
    made: str
    """An attribute that the leading object has once it is made: in a process forked before that, its copy has none."""
    among: dict[str, Places]
    facts: Facts
    groups: Places
    group: Facts
    tensors: Places
    tensor: Facts
    requests: Places
    request: dict[str, str]
    """Paths of attributes of a request."""
    variables: dict[str, str]
    """Places of objects from which the search for tensors starts, whatever its threads run, by the name they get."""
    caches: Places
    """Global variables of its modules that hold tensors to which none of its objects leads."""
    roles: dict[tuple[bool, bool], str]
    """What the process is, by whether it has a scheduler, and whether it has a model."""
    null_blocks: int
    """How many blocks of the pool are never used."""
    must_run: bool = False
    """Programs that serve nothing import its modules, too: it is searched for only while a thread runs one of them."""


WHOLE, NUMBER, TEXT, TRUTH = "whole", "number", "text", "truth"
"""Kinds of values. TEXT is a string, or a `torch.dtype`, of which the name is read."""

_CONFIG = "core.vllm_config", "worker.vllm_config", "client.vllm_config"


def _of_config(path: str) -> Places:
    return tuple(f"{start}.{path}" for start in _CONFIG)


VLLM = EngineFacts(
    name="vLLM",
    version="vllm.version.__version__",
    modules=("vllm.v1.engine.core", "vllm.v1.worker.gpu_worker", "vllm.v1.engine.core_client"),
    packages=("vllm",),
    classes={
        "core": ("vllm.v1.engine.core", "EngineCore"),
        "worker": ("vllm.v1.worker.gpu_worker", "Worker"),
        "client": ("vllm.v1.engine.core_client", "MPClient"),
    },
    leading="core",
    made="scheduler",
    among={"worker": ("core.model_executor.driver_worker.worker",)},
    facts={
        "settings": {
            "model": (_of_config("model_config.model"), TEXT),
            "dtype": (_of_config("model_config.dtype"), TEXT),
            "quantization": (_of_config("model_config.quantization"), TEXT),
            "gpu_memory_utilization": (_of_config("cache_config.gpu_memory_utilization"), NUMBER),
            "max_model_len": (_of_config("model_config.max_model_len"), WHOLE),
            "longest_of_model": (
                (
                    *_of_config("model_config.hf_text_config.max_position_embeddings"),
                    *_of_config("model_config.hf_config.max_position_embeddings"),
                ),
                WHOLE,
            ),
            "max_num_seqs": (_of_config("scheduler_config.max_num_seqs"), WHOLE),
            "max_num_batched_tokens": (_of_config("scheduler_config.max_num_batched_tokens"), WHOLE),
            "block_size": (_of_config("cache_config.block_size"), WHOLE),
            "kv_cache_dtype": (_of_config("cache_config.cache_dtype"), TEXT),
            "kv_cache_memory_bytes": (_of_config("cache_config.kv_cache_memory_bytes"), WHOLE),
            "num_gpu_blocks_override": (_of_config("cache_config.num_gpu_blocks_override"), WHOLE),
            "use_v2_model_runner": (("worker.use_v2_model_runner",), TRUTH),
            "enforce_eager": (_of_config("model_config.enforce_eager"), TRUTH),
            "enable_prefix_caching": (_of_config("cache_config.enable_prefix_caching"), TRUTH),
            "enable_sleep_mode": (_of_config("model_config.enable_sleep_mode"), TRUTH),
            "tensor_parallel_size": (_of_config("parallel_config.tensor_parallel_size"), WHOLE),
            "pipeline_parallel_size": (_of_config("parallel_config.pipeline_parallel_size"), WHOLE),
            "context_parallel_size": (_of_config("parallel_config.decode_context_parallel_size"), WHOLE),
        },
        "profile": {
            "device_total_bytes": (("worker.init_snapshot.total_memory",), WHOLE),
            "free_before_bytes": (("worker.init_snapshot.free_memory",), WHOLE),
            "requested_bytes": (("worker.requested_memory",), WHOLE),
            "weights_bytes": (("worker.model_runner.model_memory_usage",), WHOLE),
            "consumed_bytes": (("worker.total_consumed",), WHOLE),
            "activation_peak_bytes": (("worker.peak_activation_memory",), WHOLE),  # 0.11 and newer
            "graphs_estimate_bytes": (("worker.cudagraph_memory_estimate",), WHOLE),  # 0.17 and newer
            "kv_available_bytes": (
                (
                    "worker.available_kv_cache_memory_bytes",
                    "core.available_gpu_memory_for_kv_cache",
                ),
                WHOLE,
            ),
        },
        "cache": {
            "blocks": (("core.scheduler.kv_cache_config.num_blocks", *_of_config("cache_config.num_gpu_blocks")), WHOLE)
        },
        "use": {
            "blocks": (("core.scheduler.kv_cache_manager.block_pool.num_gpu_blocks",), WHOLE),
            "free_blocks": (
                ("core.scheduler.kv_cache_manager.block_pool.free_block_queue.num_free_blocks",),
                WHOLE,
            ),
            "prefix_blocks": (
                (
                    "core.scheduler.kv_cache_manager.block_pool.cached_block_hash_to_block._cache#",
                    "core.scheduler.kv_cache_manager.block_pool.cached_block_hash_to_block#",  # before 0.11
                ),
                WHOLE,
            ),
            "running": (("core.scheduler.running#",), WHOLE),
            "waiting": (("core.scheduler.waiting#", "core.scheduler.waiting._heap#"), WHOLE),
        },
    },
    groups=(
        "core.scheduler.kv_cache_config.kv_cache_groups",
        "worker.model_runner.kv_cache_config.kv_cache_groups",
    ),
    group={
        "layers": (("group.layer_names#",), WHOLE),
        "block_size": (("group.kv_cache_spec.block_size",), WHOLE),
        "heads": (("group.kv_cache_spec.num_kv_heads",), WHOLE),
        "head_size": (("group.kv_cache_spec.head_size",), WHOLE),
        "head_size_v": (("group.kv_cache_spec.head_size_v",), WHOLE),
        "dtype": (("group.kv_cache_spec.dtype",), TEXT),
        "sliding_window": (("group.kv_cache_spec.sliding_window",), WHOLE),
    },
    tensors=(
        "worker.model_runner.kv_cache_config.kv_cache_tensors",
        "core.scheduler.kv_cache_config.kv_cache_tensors",
    ),
    tensor={
        "size_bytes": (("tensor.size",), WHOLE),
        "layers": (("tensor.layers#",), WHOLE),  # since 0.30: every size is that of one allocation for all
        "shared_by": (("tensor.shared_by#",), WHOLE),  # before 0.30: each is an allocation of its own
    },
    requests=("core.scheduler.running",),
    request={"tokens": "num_computed_tokens", "preemptions": "num_preemptions"},
    variables={"model_runner": "worker.model_runner"},
    caches=(
        "vllm.v1.sample.ops.topk_topp_triton._TRITON_BUFFER_CACHE",  # one line of logits for each processor of the GPU
        "vllm.v1.sample.ops.topk_topp_triton._TRITON_SPLIT_CACHE",
    ),
    roles={
        (True, True): "engine core",
        (True, False): "engine core, without a model",
        (False, True): "worker",
        (False, False): "API server",
    },
    null_blocks=1,
)

_BATCHING = "transformers.generation.continuous_batching.continuous_api"

_FREE_BLOCKS = (
    "core.cache.pool.free_sectors# + core.cache.pool._free_blocks.*._length"
    " + core.cache.cache_allocators.*.ledger.cached_blocks#"
)
"""The blocks that no request holds: never used, given back, and kept for a prefix. A sector is one block if all layers
keep all tokens; for other models, the number is not known."""

TRANSFORMERS = EngineFacts(
    name="transformers",
    version="transformers.utils.__version__",
    modules=(_BATCHING,),
    packages=("transformers",),
    classes={"core": (_BATCHING, "ContinuousBatchProcessor")},  # 5.20 and newer
    leading="core",
    made="scheduler",
    among={},
    facts={
        "settings": {
            "dtype": (("core.model_dtype",), TEXT),
            "max_num_seqs": (("core.cb_config.max_requests_per_batch",), WHOLE),
            "enable_prefix_caching": (("core.cache.use_prefix_sharing",), TRUTH),
            "block_size": (("core.cb_config.page_size",), WHOLE),
        },
        "profile": {},
        "cache": {
            "blocks": (("core.cache.num_sectors",), WHOLE),
            "block_bytes": (("core.cache.bytes_per_sector",), WHOLE),
        },
        "use": {
            "blocks": (("core.cache.num_sectors",), WHOLE),
            "free_blocks": ((_FREE_BLOCKS,), WHOLE),
            "prefix_blocks": (("core.cache.cache_allocators.*.ledger.hash_to_block#",), WHOLE),
            "running": (("core.scheduler.active_requests#",), WHOLE),
            "waiting": (("core.scheduler.waiting_requests#",), WHOLE),
        },
    },
    groups=("core.cache.cache_allocators",),
    group={
        "layers": (("group.layer_indices#",), WHOLE),
        "block_size": (("group.tokens_per_page",), WHOLE),
        "heads": (("group.num_key_value_heads",), WHOLE),
        "head_size": (("group.head_dim",), WHOLE),
        "dtype": (("group.cache_dtype",), TEXT),
        "sliding_window": (("group.sliding_window",), WHOLE),
    },
    tensors=(),
    tensor={},
    requests=("core.scheduler.active_requests",),
    request={"tokens": "position_offset"},
    variables={"batch_processor": "core"},
    caches=(),
    roles={(True, False): "continuous batching"},
    null_blocks=0,
    must_run=True,
)

_SLOTS = "core.token_to_kv_pool_allocator"
_PAGE = f"{_SLOTS}.page_size"
_FREE_PAGES = tuple(f"{_SLOTS}.free_pages# + {_SLOTS}.{name}" for name in ("num_staged_pages", "release_pages#"))
_KEPT = "core.tree_cache.tree_core.component_evictable_size_.*"
"""Tokens that only a prefix keeps, if the tree is in Python and has one kind of layers; a tree in Rust hides them."""

SGLANG = EngineFacts(
    name="SGLang",
    version="sglang.version.__version__",
    modules=("sglang.srt.managers.scheduler",),
    packages=("sglang",),
    classes={"core": ("sglang.srt.managers.scheduler", "Scheduler")},
    leading="core",
    made="waiting_queue",
    among={},
    facts={
        "settings": {
            "model": (("core.server_args.model_path",), TEXT),
            "dtype": (("core.model_config.dtype",), TEXT),
            "max_num_seqs": (("core.max_running_requests",), WHOLE),
            "block_size": ((_PAGE,), WHOLE),
            "tensor_parallel_size": (("core.server_args.tp_size",), WHOLE),
        },
        "profile": {},
        "cache": {"blocks": ((f"{_SLOTS}.num_pages", f"{_SLOTS}.size"), WHOLE)},
        "use": {
            "blocks": ((f"{_SLOTS}.num_pages", f"{_SLOTS}.size"), WHOLE),
            "free_blocks": (  # blocks that only a prefix keeps go to the next request that needs them
                tuple(f"{free} + {_KEPT} / {_PAGE}" for free in _FREE_PAGES),
                WHOLE,
            ),
            "prefix_blocks": (
                (f"{_KEPT} / {_PAGE} + core.tree_cache.tree_core.component_protected_size_.* / {_PAGE}",),
                WHOLE,
            ),
            "running": (("core.running_batch.reqs#",), WHOLE),
            "waiting": (("core.waiting_queue#",), WHOLE),
        },
    },
    groups=(f"{_SLOTS}._kvcache",),
    group={
        "layers": (("group.layer_num",), WHOLE),
        "block_size": (("group.page_size",), WHOLE),
        "heads": (("group.head_num",), WHOLE),
        "head_size": (("group.head_dim",), WHOLE),
        "head_size_v": (("group.v_head_dim",), WHOLE),
        "dtype": (("group.dtype",), TEXT),
    },
    tensors=(),
    tensor={},
    requests=("core.running_batch.reqs",),
    request={"tokens": "kv.kv_allocated_len", "preemptions": "retraction_count"},
    variables={"model_runner": "core.tp_worker.model_runner"},
    caches=(),
    roles={(True, False): "scheduler"},
    null_blocks=0,
    must_run=True,
)

ENGINES = (VLLM, SGLANG, TRANSFORMERS)

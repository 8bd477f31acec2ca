"""Classes with the names and attributes of vLLM 0.33's (its engine core in one process), around real tensors.

What the engine itself would compute (properties, `__len__`, `__getattr__`) ends the program here: a probe may not call
it. The attributes are those that were read off the real one; `tests/attach/test_vllm.py` reads that.
"""

from __future__ import annotations

import os
import sys
import types
from collections import deque
from dataclasses import dataclass, field

import torch

BLOCKS, BLOCK, LAYERS, HEADS, HEAD = 4096, 16, 4, 8, 64
PAGE_BYTES = BLOCK * HEADS * 2 * HEAD * 2


def called(*_arguments):
    os.write(2, b"the engine's code was run\n")
    os._exit(70)


def module(name: str) -> types.ModuleType:
    """A module of this name, with its parents, as if it were imported."""
    parent = name.rpartition(".")[0]
    if parent:
        module(parent)
    return sys.modules.setdefault(name, types.ModuleType(name))


def of(name: str):
    """Puts a class into a module of vLLM's."""

    def put(cls):
        cls.__module__ = name
        setattr(module(name), cls.__name__, cls)
        return cls

    return put


@of("vllm.config")
class Config:
    def __init__(self, **values):
        vars(self).update(values)

    __getattr__ = called


@of("vllm.v1.kv_cache_interface")
@dataclass(frozen=True)
class FullAttentionSpec:
    block_size: int = BLOCK
    num_kv_heads: int = HEADS
    head_size: int = HEAD
    head_size_v: int = HEAD
    dtype: torch.dtype = torch.float16
    sliding_window: int | None = None
    page_size_bytes = property(called)


@of("vllm.v1.kv_cache_interface")
@dataclass
class KVCacheTensor:
    size: int
    layers: list[str]


@of("vllm.v1.kv_cache_interface")
@dataclass
class KVCacheGroupSpec:
    layer_names: list[str]
    kv_cache_spec: FullAttentionSpec = field(default_factory=FullAttentionSpec)


NAMES = [f"model.layers.{layer}.self_attn.attn" for layer in range(LAYERS)]


@of("vllm.v1.kv_cache_interface")
class KVCacheConfig:
    def __init__(self):
        self.num_blocks = BLOCKS
        self.kv_cache_tensors = [KVCacheTensor(BLOCKS * LAYERS * PAGE_BYTES, NAMES)]
        self.kv_cache_groups = [KVCacheGroupSpec(NAMES)]


@of("vllm.v1.core.block_pool")
class BlockHashToBlockMap:
    def __init__(self):
        self._cache = dict.fromkeys(range(3))

    __len__ = called


@of("vllm.v1.core.block_pool")
class BlockPool:
    def __init__(self):
        self.num_gpu_blocks = BLOCKS
        self.free_block_queue = Config(num_free_blocks=BLOCKS - 1 - 30)
        self.cached_block_hash_to_block = BlockHashToBlockMap()

    get_num_free_blocks = called


@of("vllm.v1.request")
class Request:
    def __init__(self, tokens: int):
        self.num_computed_tokens = tokens
        self.num_preemptions = 1

    num_tokens = property(called)


@of("vllm.v1.core.sched.request_queue")
class FCFSRequestQueue(deque):
    __len__ = called


@of("vllm.v1.core.sched.scheduler")
class Scheduler:
    tokens_of_running = (100, 200)

    def __init__(self, kv_cache_config):
        self.kv_cache_config = kv_cache_config
        self.kv_cache_manager = Config(block_pool=BlockPool())
        self.running = list(map(Request, self.tokens_of_running))
        self.waiting = FCFSRequestQueue([Request(0)])


@of("vllm.v1.worker.gpu_model_runner")
class GPUModelRunner:
    def __init__(self, kv_cache_config):
        self.model = torch.nn.Linear(2048, 2048, bias=False, dtype=torch.float16, device="cuda")
        size = kv_cache_config.kv_cache_tensors[0].size
        self.kv_caches = [torch.empty(size // 2, dtype=torch.float16, device="cuda")]
        self.model_memory_usage = 8 << 20
        self.kv_cache_config = kv_cache_config
        self.output_bin_counts = torch.empty(1024, 1024, dtype=torch.int32, device="cuda")
        cache = sys.modules["vllm.v1.sample.ops.topk_topp_triton"]._TRITON_BUFFER_CACHE
        cache["cuda:0", torch.float16] = torch.empty(128, 32000, dtype=torch.float16, device="cuda")


@of("vllm.v1.worker.worker_base")
class WorkerWrapperBase:
    def __init__(self, worker):
        self.worker = worker

    __getattr__ = called


@of("vllm.v1.worker.gpu_worker")
class Worker:
    def __init__(self, utilization: float):
        free, total = torch.cuda.mem_get_info()
        self.init_snapshot = Config(total_memory=total, free_memory=free)
        self.requested_memory = -int(-total * utilization // 1)
        self.total_consumed, self.peak_activation_memory, self.cudagraph_memory_estimate = 20 << 20, 30 << 20, 0
        self.available_kv_cache_memory_bytes = self.requested_memory - (50 << 20)
        self.model_runner = GPUModelRunner(KVCacheConfig())

    sleep_mode_backend = property(called)


@of("vllm.v1.engine.core")
class EngineCore:
    def __init__(self, utilization: float):
        self.vllm_config = Config(
            model_config=Config(
                model="llama", dtype=torch.float16, quantization=None, max_model_len=1024, enforce_eager=True,
                hf_text_config=Config(max_position_embeddings=131072),
            ),
            cache_config=Config(
                gpu_memory_utilization=utilization, block_size=BLOCK, cache_dtype="auto", kv_cache_memory_bytes=None,
                num_gpu_blocks_override=None, enable_prefix_caching=True, num_gpu_blocks=BLOCKS,
            ),
            scheduler_config=Config(max_num_seqs=256, max_num_batched_tokens=2048),
            parallel_config=Config(
                tensor_parallel_size=1, pipeline_parallel_size=1, decode_context_parallel_size=1
            ),
        )  # fmt: skip
        self.model_executor = Config(driver_worker=WorkerWrapperBase(Worker(utilization)))
        self.scheduler = Scheduler(self.model_executor.driver_worker.worker.model_runner.kv_cache_config)


module("vllm.version").__version__ = "0.33.0"
module("vllm.v1.sample.ops.topk_topp_triton")._TRITON_BUFFER_CACHE = {}


class LLM:
    """The user's own way to it is longer: `llm.llm_engine.engine_core.engine_core`."""

    def __init__(self, utilization: float):
        self.llm_engine = Config(engine_core=Config(engine_core=EngineCore(utilization)))

"""Starts vLLM once for each line of JSON, a model's configuration and flags, and prints what the engine says of itself.

vLLM is imported once; each start is in a process of its own, forked before CUDA is in use.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.update(
    VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_USE_FLASHINFER_SAMPLER="0", VLLM_LOGGING_LEVEL="ERROR",
    VLLM_NO_USAGE_STATS="1", HF_HUB_OFFLINE="1", HF_HUB_DISABLE_PROGRESS_BARS="1",
)  # fmt: skip

import vllm.model_executor.models.llama
import vllm.v1.engine.llm_engine
import vllm.v1.worker.gpu_model_runner
import vllm.v1.worker.gpu_worker  # noqa: F401
from vllm import LLM

FLAGS = {"load_format": "dummy", "skip_tokenizer_init": True, "disable_log_stats": True}
MEASURED = ("total_consumed", "peak_activation_memory", "cudagraph_memory_estimate", "available_kv_cache_memory_bytes",
            "requested_memory")  # fmt: skip


def say(*words):
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def started(model, flags):
    folder = tempfile.mkdtemp(prefix="vllm-model-")
    Path(folder, "config.json").write_text(json.dumps(model))
    try:
        llm = LLM(model=folder, **FLAGS | flags)
    except (ValueError, RuntimeError) as error:
        say("result refused", json.dumps(str(error)))
        return
    core = llm.llm_engine.engine_core.engine_core
    worker = core.model_executor.driver_worker.worker
    config = core.scheduler.kv_cache_config
    say("result started", json.dumps({
        "blocks": config.num_blocks, "tokens": core.vllm_config.cache_config.kv_cache_size_tokens,
        "weights": worker.model_runner.model_memory_usage, "total": worker.init_snapshot.total_memory,
        "free": worker.init_snapshot.free_memory, "bytes": config.kv_cache_tensors[0].size,
        "groups": [len(group.layer_names) for group in config.kv_cache_groups],
        "seqs": core.vllm_config.scheduler_config.max_num_seqs,
        "batched": core.vllm_config.scheduler_config.max_num_batched_tokens,
        "length": core.vllm_config.model_config.max_model_len,
        **{name: getattr(worker, name) for name in MEASURED},
    }))  # fmt: skip


def main():
    say("ready")
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if not child:
            os.environ.update(asked.get("environment", {}))
            started(asked["model"], asked["flags"])
            os._exit(0)
        os.waitpid(child, 0)


main()

"""vLLM with a small Llama that has no weights, in one process: prints what the engine says of itself, then waits.

The arguments are JSON: flags of vLLM, to begin with. On a fake GPU the first model runner generates; the second waits
for ever for a number of tokens that it reads back from the device, as that is zero.
"""

import json
import logging
import os
import re
import sys

os.environ.update(
    VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_USE_V2_MODEL_RUNNER="0", VLLM_USE_FLASHINFER_SAMPLER="0",
    VLLM_USE_DEEP_GEMM="0", VLLM_LOGGING_LEVEL="ERROR", VLLM_NO_USAGE_STATS="1", HF_HUB_OFFLINE="1",
    HF_HUB_DISABLE_PROGRESS_BARS="1",
)  # fmt: skip

from vllm import LLM, SamplingParams

import gputui.probe  # noqa: F401
from tests.attach.programs import small_llama

FLAGS = {
    "load_format": "dummy", "enforce_eager": True, "skip_tokenizer_init": True, "dtype": "float16",
    "gpu_memory_utilization": 0.5, "max_model_len": 1024, "disable_log_stats": True,
}  # fmt: skip


def say(*words):
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def served(changes):
    return LLM(model=small_llama.folder(), **FLAGS | changes)


class Told(logging.Handler):
    """What an engine without `kv_cache_size_tokens` says in its log of the tokens that its cache has room for."""

    tokens = None

    def emit(self, record):
        if match := re.search(r"KV cache size: ([\d,]+) tokens", record.getMessage()):
            self.tokens = int(match[1].replace(",", ""))


TOLD = Told()


def facts(engine):
    """What the engine says itself."""
    scheduler = engine.scheduler
    pool = scheduler.kv_cache_manager.block_pool
    return {
        "blocks": scheduler.kv_cache_config.num_blocks,
        "tokens": getattr(engine.vllm_config.cache_config, "kv_cache_size_tokens", TOLD.tokens),
        "free_blocks": pool.get_num_free_blocks(),
        "prefix_blocks": len(pool.cached_block_hash_to_block),
        "running": len(scheduler.running),
        "waiting": len(scheduler.waiting),
        "longest_tokens": max((request.num_computed_tokens for request in scheduler.running), default=0),
    }


def add_requests(llm, count):
    """Requests of different lengths, some steps into their generation."""
    for number in range(count):
        prompt = {"prompt_token_ids": [1 + number] * (100 * (number + 1))}
        parameters = SamplingParams(max_tokens=400, ignore_eos=True, detokenize=False)
        llm.llm_engine.add_request(str(number), prompt, parameters)
    for _ in range(20):
        llm.llm_engine.step()


def take_turns(llm):
    """Sleep, and wake up for each further line."""
    from vllm.device_allocator import cumem
    from vllm.distributed.device_communicators import cuda_wrapper

    # A real CUDA runtime of another package may be loaded as well, and would be taken.
    cumem.libcudart = cuda_wrapper.CudaRTLibrary(os.environ["VLLM_NCCL_SO_PATH"])
    for word, change in ("asleep", llm.sleep), ("awake", llm.wake_up):
        input()
        change()
        say(word)


def main():
    logger = logging.getLogger("vllm.v1.core.kv_cache_utils")
    logger.setLevel("INFO")
    logger.addHandler(TOLD)
    try:
        llm = served(json.loads(sys.argv[1]))
    except ValueError as error:
        say("result refused", str(error))
        return
    engine = llm.llm_engine.engine_core.engine_core
    say("result started", json.dumps(facts(engine)))
    if "--requests" in sys.argv:
        input()
        add_requests(llm, 5)
        say("serving", json.dumps(facts(engine)))
    if "--sleeps" in sys.argv:
        take_turns(llm)
    input()


if __name__ == "__main__":  # workers import this file
    main()

"""SGLang with a small Llama that has no weights: prints what the server says of itself, then waits.

The arguments are JSON, flags of SGLang, and `--requests`: then it stops in the middle of some. Its own kernels need
more of a driver than a fake GPU has, so those of PyTorch and of Triton take their place; what they compute means
nothing.
"""

import asyncio
import json
import os
import sys

from tests.attach.programs import small_llama

os.environ.update(HF_HUB_OFFLINE="1", SGLANG_DISABLE_TQDM="1", SGLANG_FORCE_FUSED_OP_BACKEND="torch")

RUNNING, REQUESTS = 4, 6
SHARED = [7] * 100
"""What all prompts begin with, which the tree of prefixes keeps once."""
FLAGS = {
    "load_format": "dummy", "skip_tokenizer_init": True, "disable_cuda_graph": True, "mem_fraction_static": 0.5,
    "attention_backend": "triton", "sampling_backend": "pytorch", "dtype": "float16", "context_length": 4096,
    "log_level": "error", "max_running_requests": RUNNING,
}  # fmt: skip


def say(*words):
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def facts(engine):
    """What the server says itself."""
    told = engine.get_server_info()
    return {"tokens": told["max_total_num_tokens"], "memory": told["internal_states"][0].get("memory_usage")}


def own_tokens(number):
    """Those of a prompt that no other has."""
    return [10 + number] * 50 * (number + 1)


async def answer(engine, number, answered):
    prompt = SHARED + own_tokens(number)
    parameters = {"max_new_tokens": 3000, "ignore_eos": True}
    async for said in await engine.async_generate(input_ids=prompt, sampling_params=parameters, stream=True):
        answered[number] = said["meta_info"]["prompt_tokens"] + said["meta_info"]["completion_tokens"]


async def serve(engine):
    """Serve some requests and stop in the middle of them: what the server says of its load then."""
    from sglang.srt.managers.io_struct import PauseGenerationReqInput

    manager = engine.tokenizer_manager
    answered = {}
    tasks = [asyncio.ensure_future(answer(engine, number, answered)) for number in range(REQUESTS)]
    while len(answered) < RUNNING:  # noqa: ASYNC110 - the answers come from other tasks
        await asyncio.sleep(0.1)
    await manager.pause_generation(PauseGenerationReqInput(mode="in_place"))
    await asyncio.sleep(1)
    [load] = await manager.get_loads(include=["all"])
    return load, max(answered.values()), tasks


def main():
    import sglang

    engine = sglang.Engine(model_path=small_llama.folder(), **FLAGS | json.loads(sys.argv[1]))
    say("started", json.dumps(facts(engine)))
    if "--requests" in sys.argv:
        load, longest, _tasks = engine.loop.run_until_complete(serve(engine))
        own = [len(own_tokens(number)) for number in range(RUNNING)]
        told = {
            "num_running_reqs": load.num_running_reqs, "num_waiting_reqs": load.num_waiting_reqs,
            "longest_tokens": longest, "longest_prompt": len(SHARED) + own[-1],
            "prompt_tokens": len(SHARED) + sum(own),
        }  # fmt: skip
        say("serving", json.dumps(told))
    input()


if __name__ == "__main__":  # its scheduler imports this file
    main()

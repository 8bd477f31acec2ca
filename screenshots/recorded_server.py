"""A vLLM that gets more requests than its KV cache has blocks for: the program of a shipped recording.

Its weights are made up, and on a fake GPU (`tests/fakegpu`) it computes nothing. The recording begins when it serves.
"""

import os
import random
import time

os.environ.update(
    VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_USE_V2_MODEL_RUNNER="0", VLLM_USE_FLASHINFER_SAMPLER="0",
    VLLM_USE_DEEP_GEMM="0", VLLM_LOGGING_LEVEL="ERROR", VLLM_NO_USAGE_STATS="1", HF_HUB_OFFLINE="1",
)  # fmt: skip

from vllm import LLM, LLMEngine, SamplingParams

from screenshots.llama import folder

OUTSTANDING = 130
PROMPT_TOKENS = 800, 9000
TOKENS = 300
STEP_S = 0.1


def serve(engine: LLMEngine) -> None:
    """Keep so many requests outstanding, each with the same beginning, as chats of one assistant have."""
    drawn, number, ended = random.Random(1), 0, 0
    while True:
        while number - ended < OUTSTANDING:
            length = drawn.randint(*PROMPT_TOKENS)
            tokens = [7] * 400 + [number % 1000 + 10] * (length - 400)
            parameters = SamplingParams(max_tokens=TOKENS, ignore_eos=True, detokenize=False)
            engine.add_request(str(number), {"prompt_token_ids": tokens}, parameters)
            number += 1
        ended += sum(output.finished for output in engine.step())
        time.sleep(STEP_S)


def main() -> None:
    llm = LLM(
        model=folder(), load_format="dummy", enforce_eager=True, skip_tokenizer_init=True, gpu_memory_utilization=0.9,
        max_model_len=16384, disable_log_stats=True,
    )  # fmt: skip
    import gputui.probe  # noqa: F401 - what comes before is no part of the recording

    serve(llm.llm_engine)


main()

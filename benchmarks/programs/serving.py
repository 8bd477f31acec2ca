"""A vLLM that serves as many requests as each line of input says, 64 at a time, and prints how it went."""

import json
import sys
import time

from vllm import LLMEngine, SamplingParams

from tests.attach.programs.vllm_engine import say, served

AT_A_TIME = 64
PROMPT_TOKENS, TOKENS = 64, 8


def serve(engine: LLMEngine, numbers: range) -> int:
    """Serve the requests of these numbers; how many ended with all of their tokens."""
    waiting, running, whole = iter(numbers), 0, 0
    parameters = SamplingParams(max_tokens=TOKENS, ignore_eos=True, detokenize=False)
    ended = 0
    while ended < len(numbers):
        while running < AT_A_TIME and (number := next(waiting, None)) is not None:
            prompt = {"prompt_token_ids": [10 + number % 1000] * PROMPT_TOKENS}
            engine.add_request(str(number), prompt, parameters)
            running += 1
        for output in engine.step():
            if output.finished:
                running, ended = running - 1, ended + 1
                whole += len(output.outputs[0].token_ids) == TOKENS
    return whole


def main() -> None:
    engine, begin = served({"gpu_memory_utilization": 0.1}).llm_engine, 0
    say("ready")
    for line in sys.stdin:
        numbers = range(begin, begin + int(line))
        started = time.perf_counter()
        whole = serve(engine, numbers)
        say("served", json.dumps({"requests": len(numbers), "whole": whole, "s": time.perf_counter() - started}))
        begin = numbers.stop


if __name__ == "__main__":
    main()

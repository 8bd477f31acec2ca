"""An SGLang of which more requests are asked than may run: the program of a shipped recording.

Its weights are made up, and on a fake GPU (`tests/fakegpu`) it computes nothing: kernels of PyTorch and of Triton take
the place of its own, which need more of a driver. Its scheduler, a process of its own, is recorded.
"""

import asyncio
import os
import random

os.environ.update(
    HF_HUB_OFFLINE="1", SGLANG_DISABLE_TQDM="1", SGLANG_FORCE_FUSED_OP_BACKEND="torch",
    SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND="python",
)  # fmt: skip

from sglang.srt.entrypoints.engine import Engine
from sglang.srt.managers.scheduler import run_scheduler_process

from screenshots.llama import folder

RUNNING, OUTSTANDING = 32, 45
PROMPT_TOKENS = 800, 9000
TOKENS = 2000


def scheduler(*arguments: object, **named: object) -> None:
    """What the process of the scheduler runs."""
    import gputui.probe  # noqa: F401

    run_scheduler_process(*arguments, **named)


class Recorded(Engine):
    run_scheduler_process_func = staticmethod(scheduler)


async def ask(engine: Engine, number: int) -> None:
    """Ask for one answer after the other, each prompt with the same beginning, as chats of one assistant have."""
    drawn = random.Random(number)
    while True:
        length = drawn.randint(*PROMPT_TOKENS)
        prompt = [7] * 400 + [drawn.randint(10, 1000)] * (length - 400)
        await engine.async_generate(input_ids=prompt, sampling_params={"max_new_tokens": TOKENS, "ignore_eos": True})


async def serve(engine: Engine) -> None:
    await asyncio.gather(*(ask(engine, number) for number in range(OUTSTANDING)))


def main() -> None:
    engine = Recorded(
        model_path=folder(), load_format="dummy", skip_tokenizer_init=True, disable_cuda_graph=True,
        context_length=16384,
        attention_backend="triton", sampling_backend="pytorch", max_running_requests=RUNNING, mem_fraction_static=0.85,
        log_level="error",
    )  # fmt: skip
    engine.loop.run_until_complete(serve(engine))


if __name__ == "__main__":  # its scheduler imports this file
    main()

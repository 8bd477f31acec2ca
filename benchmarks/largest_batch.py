"""The largest batch that fits a device, as `gputui whatif` finds it from one step of batch 4, and the true one.

    python -m benchmarks.largest_batch [--device-gib 24] [--models gpt] [--python other/bin/python]

Each training runs on a fake GPU of that size. gputui records a step of it, and says which batch is the largest. Then
the training really runs with that batch and its neighbours, until the largest is found that does not run out of memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests import torches
from tests.whatif.conftest import PROGRAMS

MODELS = ("gpt", "lora", "resnet", "unet")
BATCH = 4
OUT_OF_MEMORY = "torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"
"""How the last line of such a training begins; before 2.5 with the second."""


class FailedError(Exception):
    """A program that did something else than to train or to run out of memory."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Find, run, and print a table."""
    parser = argparse.ArgumentParser(description="The largest batch that fits, found and true.")
    parser.add_argument("--device-gib", type=float, default=24, help="the memory of the device")
    parser.add_argument("--models", default=",".join(MODELS), help="which of the trainings")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with a CUDA build of PyTorch")
    parsed = parser.parse_args(arguments)
    if not torches.has_cuda_build(parsed.python):
        print(f"{parsed.python} has no CUDA build of PyTorch.")
        return 1
    print("| model | found | true | difference |\n| --- | ---: | ---: | ---: |")
    for model in parsed.models.split(","):
        with TemporaryDirectory() as folder:
            variables = torches.fake_cuda(parsed.python, Path(folder), gpus=1, memory_gib=parsed.device_gib)
            found = _found(parsed.python, model, variables)
            true = _largest(found, partial(_fits, parsed.python, model, variables))
        print(f"| {model} | {found} | {true} | {found - true:+d} |", flush=True)
    return 0


def _found(python: str, model: str, variables: dict[str, str]) -> int:
    """What `gputui whatif` says of the training while it runs with a batch of 4."""
    with _training(python, model, variables) as pid:
        words = ["whatif", str(pid), "--yes", "--batch", f"{BATCH}:{2 * BATCH}", "--json"]
        answer = subprocess.run(
            [sys.executable, "-m", "gputui", *words], env={**os.environ, **_without_cuda(variables)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if answer.returncode:
        raise FailedError(answer.stderr)
    return int(json.loads(answer.stdout)["largest_batch"])


@contextmanager
def _training(python: str, model: str, variables: dict[str, str]) -> Iterator[int]:
    """A training that goes on, with the probe; its PID."""
    command = _command(python, model, BATCH, "endless")
    environment = {**os.environ, **variables, "PYTHONPATH": str(torches.REPOSITORY)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it has taken its first steps
            yield process.pid
        finally:
            process.kill()


def _largest(guess: int, fits: Callable[[int], bool]) -> int:
    """The largest number that fits, looked for around a guess with steps that double, and then between two of them."""
    step, is_above = 1, fits(guess)
    low, high = (guess, guess + 1) if is_above else (guess - 1, guess)
    while is_above and fits(high):
        low, high, step = high, high + 2 * step, 2 * step
    while not is_above and low > 0 and not fits(low):
        low, high, step = max(0, low - 2 * step), low, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _fits(python: str, model: str, variables: dict[str, str], batch: int) -> bool:
    """Whether the training takes its steps with this batch."""
    environment = {**os.environ, **variables, "PYTHONPATH": str(torches.REPOSITORY), "GPUTUI_PROBE": "0"}
    ended = subprocess.run(
        _command(python, model, batch), env=environment, capture_output=True, text=True, check=False
    )  # fmt: skip
    if ended.returncode and not ended.stderr.splitlines()[-1].startswith(OUT_OF_MEMORY):
        raise FailedError(ended.stderr[-2000:])
    return not ended.returncode


def _command(python: str, model: str, batch: int, *more: str) -> list[str]:
    return [python, "-W", "ignore", str(PROGRAMS / "training_steps.py"), model, str(batch), "none", *more]


def _without_cuda(variables: dict[str, str]) -> dict[str, str]:
    """For gputui itself, which needs NVML alone."""
    return {name: value for name, value in variables.items() if name != "LD_PRELOAD"}


if __name__ == "__main__":
    sys.exit(main())

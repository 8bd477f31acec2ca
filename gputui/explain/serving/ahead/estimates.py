"""What a server measures when it starts, estimated: activations, CUDA graphs, its own buffers, what is no tensor.

Each is a range. The factors are from starts of vLLM 0.33 with models of different shapes, and from logs of real GPUs.
"""

from __future__ import annotations

from typing import NamedTuple

from gputui.explain.serving.ahead.architecture import Architecture
from gputui.explain.serving.ahead.elements import heads_on, vocabulary_rows
from gputui.explain.serving.ahead.quantization import WIDTHS
from gputui.model.attached.serving import ServingSettings
from gputui.units import MIB


class Between(NamedTuple):
    """A number that is not known exactly, such as of bytes."""

    least: int
    most: int


CONTEXT = Between(400 * MIB, 900 * MIB)
"""Of a process's CUDA context: there before the server looks how much is free."""
DRIVER = Between(350 * MIB, 750 * MIB)
"""What the driver keeps of a device: of the memory that nvidia-smi shows, cudaMemGetInfo has so much less.
615 MiB on an H200 (driver 580); 437 MiB on an H100, 420 MiB on an RTX 4090 in the logs of vLLM#10511 and vLLM#13061."""
LIBRARIES, COMMUNICATION = Between(0, 400 * MIB), Between(100 * MIB, 1100 * MIB)
"""Kernels, handles and workspaces; with tensor parallelism also NCCL and the buffers of reductions."""
SAMPLER_ROW_BYTES = 4 * (1024 + 1024 + 1024 + 128)
"""Of a request in the second model runner: allowed tokens, biases, tokens that stop it."""

SAMPLED_BYTES = {False: 14, True: 6}
"""Of a word of the vocabulary for each request, in the first and in the second model runner: logits as the model makes
them and as float32; in the first also probabilities and random numbers."""
PEAK_OFF, PEAK_ALWAYS = Between(70, 140), 256 * MIB
"""In percent of what the shapes of tensors say; what kernels allocate beside them."""


def buffers(model: Architecture, settings: ServingSettings) -> Between:
    """The engine's own tensors: counts of tokens for penalties, tables of blocks, rotary angles."""
    rows, length = settings.max_num_seqs or 0, settings.max_model_len or 0
    tables = rows * -(-length // (settings.block_size or 1)) * 4
    angles = (model.longest or length) * model.head_size * 4
    counts = rows * (model.vocabulary * 4 + model.vocabulary // 8 + SAMPLER_ROW_BYTES)
    size = tables * 2 + counts if settings.use_v2_model_runner else tables
    return Between(size, size + angles + 64 * MIB)


def activations(model: Architecture, settings: ServingSettings, dtype: str, devices: int) -> Between:
    """The peak of the profiling run: a forward pass of max_num_batched_tokens, or sampling for max_num_seqs."""
    tokens, width = settings.max_num_batched_tokens or 0, WIDTHS[dtype]
    heads, kv_heads = heads_on(model, devices)
    attention = (heads * 2 + kv_heads * 2) * model.head_size
    inner = -(-(model.experts.size * model.experts.of_token if model.experts else model.intermediate) // devices)
    forward = tokens * width * (2 * model.hidden + max(attention, 3 * inner))
    rows, words = min(settings.max_num_seqs or 0, tokens), vocabulary_rows(model, devices) * devices
    each = SAMPLED_BYTES[bool(settings.use_v2_model_runner)]
    peak = max(forward, tokens * width * model.hidden + rows * words * each)
    return Between(int(peak * PEAK_OFF.least / 100), int(peak * PEAK_OFF.most / 100) + PEAK_ALWAYS)


def graphs(model: Architecture, settings: ServingSettings) -> Between:
    """What CUDA graphs take, which a server measures with two of each kind: its driver's part grows with the layers."""
    if settings.enforce_eager:
        return Between(0, 0)
    count = captured_sizes(settings)
    return Between(count * MIB, count * (2 * MIB + model.layers * MIB // 2))


def captured_sizes(settings: ServingSettings) -> int:
    """For how many numbers of tokens graphs are captured by default: 1, 2, 4, then each 8th, from 256 each 16th."""
    largest = min(2 * (settings.max_num_seqs or 0), 512, settings.max_num_batched_tokens or 0)
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)]
    return sum(size <= largest for size in sizes)

"""Estimates of what a server measures when it starts: activations, CUDA graphs, its buffers, memory of libraries.

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
    """A range for a number that is not known exactly, such as of bytes."""

    least: int
    most: int


CONTEXT = Between(400 * MIB, 900 * MIB)
"""A process's CUDA context, which exists before the server reads how much memory is free."""
DRIVER = Between(350 * MIB, 750 * MIB)
"""What the driver keeps of a device: by so much cudaMemGetInfo's total is smaller than nvidia-smi's.
615 MiB on an H200 (driver 580); 437 MiB on an H100, 420 MiB on an RTX 4090 in the logs of vLLM#10511 and vLLM#13061."""
LIBRARIES, COMMUNICATION = Between(0, 400 * MIB), Between(100 * MIB, 1100 * MIB)
"""Kernels, handles and workspaces, outside tensors; `COMMUNICATION` is the same with NCCL, with tensor parallelism."""
SAMPLER_ROW_BYTES = 4 * (1024 + 1024 + 1024 + 128)
"""What a request takes in the sampler of vLLM's second model runner: allowed tokens, biases, stop tokens."""

SAMPLED_BYTES = {False: 14, True: 6}
"""Bytes of a token of the vocabulary for each request that is sampled, by whether it is the second model runner: logits
in the model's data type and as float32; in the first also probabilities and random numbers."""
PEAK_OFF, PEAK_ALWAYS = Between(70, 140), 256 * MIB
"""The peak in percent of the bytes that the tensors' shapes give, and what kernels may allocate beside it."""


def buffers(model: Architecture, settings: ServingSettings) -> Between:
    """The bytes of the engine's own tensors: counts of tokens for penalties, tables of blocks, rotary angles."""
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
    """What CUDA graphs take; a server measures two of each kind. The driver's part grows with the number of layers."""
    if settings.enforce_eager:
        return Between(0, 0)
    count = captured_sizes(settings)
    return Between(count * MIB, count * (2 * MIB + model.layers * MIB // 2))


def captured_sizes(settings: ServingSettings) -> int:
    """How many graphs are captured by default: for 1, 2 and 4 tokens, then every 8, from 256 tokens on every 16."""
    largest = min(2 * (settings.max_num_seqs or 0), 512, settings.max_num_batched_tokens or 0)
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)]
    return sum(size <= largest for size in sizes)

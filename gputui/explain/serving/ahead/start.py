"""Whether a server would start, and what its cache would hold: its own arithmetic, with ranges for what it measures.

Source: `request_memory`, `determine_available_memory` and `get_kv_cache_configs` of vLLM 0.33.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from gputui.explain.serving.ahead.architecture import Architecture, architecture_of
from gputui.explain.serving.ahead.cache import CachePlan, cache_plan
from gputui.explain.serving.ahead.command_line import FITTED, ServeFlags
from gputui.explain.serving.ahead.defaults import dtype_of, settings_of
from gputui.explain.serving.ahead.device import Device
from gputui.explain.serving.ahead.estimates import (
    COMMUNICATION,
    CONTEXT,
    LIBRARIES,
    Between,
    activations,
    buffers,
    graphs,
)
from gputui.explain.serving.ahead.refusals import refusal_of_cache, refusal_of_flags, refusal_of_memory
from gputui.explain.serving.ahead.weights import Weights, weights_of
from gputui.explain.serving.capacity import NULL_BLOCKS, blocks_of_request, longest_request, tokens_in
from gputui.model.attached.serving import ServingSettings
from gputui.model.checkpoint import Checkpoint
from gputui.units import MIB

LESS_WEIGHTS, MORE_WEIGHTS, LOADING_BYTES = 0.005, 0.015, 64 * MIB
"""Shares by which a loaded model may take less or more than its tensors (rotary angles), and bytes used to load it."""


class Verdict(Enum):
    """Whether a server starts."""

    STARTS = "starts"
    REFUSES = "does not start"
    NOT_SURE = "may start"


@dataclass(frozen=True, slots=True)
class End:
    """One device in the worst or the best case; `longest` request that fits, in tokens; vLLM's `error`, "" for none."""

    requested_bytes: int
    kv_bytes: int
    blocks: int
    tokens: int
    longest: int
    error: str


@dataclass(frozen=True, slots=True)
class Start:
    """A server that would be started: what each of its devices has, in the worst and in the best case."""

    flags: ServeFlags
    device: Device
    model: Architecture
    settings: ServingSettings
    weights: Weights
    cache: CachePlan
    parts: Mapping[str, Between]
    worst: End
    best: End

    @property
    def verdict(self) -> Verdict:
        """Whether the server starts: it refuses if it does so in the best case."""
        if self.best.error:
            return Verdict.REFUSES
        return Verdict.NOT_SURE if self.worst.error else Verdict.STARTS

    @property
    def error(self) -> str:
        """vLLM's error in the best case, or else in the worst; "" where it is sure to start."""
        return self.best.error or self.worst.error


def start_of(checkpoint: Checkpoint, flags: ServeFlags, device: Device, *, has_second_runner: bool = True) -> Start:
    """The start of a server with these flags. Raises GputuiError for a model whose sizes are not known."""
    model = architecture_of(checkpoint.configuration, checkpoint.name)
    dtype, devices = dtype_of(model, flags, device), flags.tensor_parallel_size
    cache = cache_plan(model, dtype, flags.kv_cache_dtype or "auto", flags.block_size, devices)
    settings = settings_of(model, flags, device, cache, dtype, has_second_runner=has_second_runner)
    weights = weights_of(checkpoint, model, dtype, flags.quantization, devices)
    parts = {
        "weights": _around(weights.bytes),
        "buffers": buffers(model, settings),
        "activations": activations(model, settings, dtype, devices),
        "graphs": graphs(model, settings),
        "libraries": LIBRARIES if devices == 1 else COMMUNICATION,
    }
    refused = refusal_of_flags(model, flags, settings)
    is_fitted = flags.max_model_len == FITTED
    sides = ((1, device.total_bytes.least, CONTEXT.most), (0, device.total_bytes.most, CONTEXT.least))
    worst, best = (
        _end(
            _Side(total, context, {name: part[end] for name, part in parts.items()}),
            settings,
            cache,
            refused,
            is_fitted=is_fitted,
        )
        for end, total, context in sides
    )
    return Start(flags, device, model, settings, weights, cache, parts, worst, best)


def _around(size: int) -> Between:
    return Between(round(size * (1 - LESS_WEIGHTS)), round(size * (1 + MORE_WEIGHTS)) + LOADING_BYTES)


class _Side(NamedTuple):
    """One number, of the worst or of the best case, for each part of a device, in bytes."""

    total: int
    context: int
    parts: Mapping[str, int]


def _end(side: _Side, settings: ServingSettings, cache: CachePlan, refused: str, *, is_fitted: bool) -> End:
    """vLLM's arithmetic for one case; `is_fitted`: it chooses the longest max_model_len that fits."""
    total, parts = side.total, side.parts
    requested = math.ceil(total * (settings.gpu_memory_utilization or 1))
    available = settings.kv_cache_memory_bytes or requested - sum(parts.values())
    each = cache.bytes_per_block
    blocks = max(0, available // each)
    longest = (longest_request(blocks, cache.groups, settings) if blocks else 0) or 0
    length = settings.max_model_len or 0
    if is_fitted and longest:
        length = min(length, longest)
        settings = replace(settings, max_model_len=length)
    needed = (blocks_of_request(cache.groups, length, settings) or 0) * each
    error = (
        refused
        or refusal_of_memory(total - side.context, total, requested, parts["weights"], settings)
        or refusal_of_cache(available - NULL_BLOCKS * each, needed, longest, length)
    )
    return End(requested, max(0, available), blocks, tokens_in(blocks, cache.groups, settings) or 0, longest, error)

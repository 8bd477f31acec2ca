"""What keeps the requests of an inference server waiting, and what would keep the server from starting or waking."""

from __future__ import annotations

import math

from gputui.explain.advice.situation import Situation
from gputui.explain.advice.thresholds import IDLE_BLOCKS_SHARE, PART_BYTES, SCARCE_BLOCKS_SHARE
from gputui.explain.owners.names import counted
from gputui.explain.serving.asleep import asleep
from gputui.explain.serving.capacity import blocks_in_use, blocks_of_request
from gputui.explain.serving.words import larger
from gputui.model.attached.analysis import Finding
from gputui.model.attached.serving import Serving
from gputui.model.reading import value_of
from gputui.model.weight import Weight
from gputui.units import format_bytes

SEATS = {"transformers": "max_requests_per_batch", "SGLang": "max_running_requests"}
"""The engines' names for the limit of running requests, if not vLLM's `max_num_seqs`."""


def waits_for_blocks(situation: Situation) -> Finding | None:
    """Requests wait, or running ones were preempted: few blocks are free, or fewer than the longest request has."""
    serving = situation.moment.serving
    if serving is None or not (serving.use.waiting or serving.use.preemptions):
        return None
    free, use, longest = _free_share(serving), serving.use, _blocks_of_longest(serving)
    if free is None or (free > SCARCE_BLOCKS_SHARE and (use.free_blocks or 0) >= longest):
        return None
    preempted = f"{counted(use.preemptions, 'preemption')} of running requests. " if use.preemptions else ""
    running = f"{use.running or 0:,} run"
    waits = f"Requests wait for the KV cache: {use.waiting:,} wait, {running}." if use.waiting else ""
    others = [f"{result.flags.words} {result.blocks:,} blocks" for result in larger(serving)]
    return Finding(
        weight=Weight.ADVICE,
        title=waits or f"The KV cache runs short: requests were preempted, and {running} now.",
        evidence=(
            f"{preempted}{use.free_blocks or 0:,} of {use.blocks or 0:,} blocks are free."
            + (f" The longest request that runs has {longest:,}." if longest else ""),
        ),
        remedy=f"With other flags it would have more: {', '.join(others)}." if others else "",
        screen="tensors",
    )


def waits_for_seats(situation: Situation) -> Finding | None:
    """Requests wait although many blocks are free, since as many run as the engine's limit allows."""
    serving = situation.moment.serving
    free = _free_share(serving)
    if serving is None or free is None or free < IDLE_BLOCKS_SHARE or not serving.use.waiting:
        return None
    running, most = serving.use.running or 0, serving.settings.max_num_seqs
    if not most or running < most:
        return None
    count = serving.use.waiting
    limit = SEATS.get(serving.name, "max_num_seqs")
    waiting = f"{counted(count, 'request')} wait{'s' if count == 1 else ''}"
    return Finding(
        weight=Weight.ADVICE,
        title=f"{waiting}, as {limit}={most} run; {free:.0%} of the blocks are free.",
        evidence=(f"{blocks_in_use(serving):,} of {serving.use.blocks or 0:,} blocks are in use.",),
        remedy=f"A larger {limit} lets more run; what a batch needs then takes more, and the cache a little less.",
    )


def would_not_start_again(situation: Situation) -> Finding | None:
    """Other processes hold what the server would need at its start, when `requested_bytes` have to be free."""
    serving, device = situation.moment.serving, situation.device
    wanted = serving.profile.requested_bytes if serving else None
    total = serving.profile.device_total_bytes if serving else None
    free, bridge = value_of(device.driver.device_free_bytes), device.bridge
    own = value_of(bridge.process_used_bytes) if bridge else None
    others = value_of(bridge.other_processes_bytes) if bridge else None
    if not wanted or not total or free is None or own is None or not others or others < PART_BYTES:
        return None
    available = free + own
    if available >= wanted:
        return None
    fitting = math.floor(100 * available / total) / 100
    return Finding(
        weight=Weight.ADVICE,
        title=f"This server would not start again: other processes hold {format_bytes(others)} of the device.",
        evidence=(
            f"{format_bytes(available)} of {format_bytes(total)} would be free; it asks for {format_bytes(wanted)}.",
        ),
        remedy=f"Before a restart, end them (`gputui` lists them), or set gpu_memory_utilization to {fitting:g}.",
        bytes=others,
        screen="memory",
    )


def would_not_wake(situation: Situation) -> Finding | None:
    """A server in sleep mode has given back more memory than is free now: waking up would fail."""
    device = situation.device
    needed = asleep(device).bytes if situation.moment.serving else 0
    free = value_of(device.driver.device_free_bytes)
    others = value_of(device.bridge.other_processes_bytes) if device.bridge else None
    if free is None or needed <= free:
        return None
    return Finding(
        weight=Weight.ADVICE,
        title=f"This server could not wake up: it needs {format_bytes(needed)}, and {format_bytes(free)} are free.",
        evidence=(f"Other processes hold {format_bytes(others)} of the device.",) if others else (),
        remedy="Free memory in the other processes first, such as a trainer's gradients and optimizer states, and call"
        " torch.cuda.empty_cache() there.",
        bytes=needed - free,
        screen="memory",
    )


def _blocks_of_longest(serving: Serving) -> int:
    """How many blocks the longest running request has; 0 if that is not known."""
    return blocks_of_request(serving.cache.groups, serving.use.longest_tokens or 0, serving.settings) or 0


def _free_share(serving: Serving | None) -> float | None:
    use = serving.use if serving else None
    return use.free_blocks / use.blocks if use and use.blocks and use.free_blocks is not None else None

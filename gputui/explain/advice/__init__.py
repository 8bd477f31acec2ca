"""Why a device's memory looks as it does, and what to do: rules that each make one finding about it, or none.

`RULES` lists them. Each takes a `situation`, and speaks from its `thresholds` on. `held`: live memory of no use;
`leaks`: memory that keeps rising; `allocator`: cached or stuck memory, and failed requests; `program`: habits of
training loops; `outside`: memory beside PyTorch's. `relevance` says which findings are shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gputui.explain.advice.allocator.cache import churn, release
from gputui.explain.advice.allocator.failures import out_of_memory, retries, room
from gputui.explain.advice.allocator.stuck import scattered, split, stuck
from gputui.explain.advice.held.copies import second_model, weight_copy
from gputui.explain.advice.held.idle import container_tensors, kept_graph
from gputui.explain.advice.held.keepers import (
    gradient_buckets,
    kept_by_cycle,
    kept_by_exception,
    kept_by_gradient_graph,
    kept_by_optimizer,
    kept_by_output,
)
from gputui.explain.advice.held.views import small_views
from gputui.explain.advice.leaks.findings import leak
from gputui.explain.advice.outside.beside import nccl, pinned_rounding, unmapped
from gputui.explain.advice.outside.contexts import idle_context, visitors
from gputui.explain.advice.outside.driver import gap, others, pending, pools, rounding
from gputui.explain.advice.program.batch import batch
from gputui.explain.advice.program.kv_cache import kv_cache
from gputui.explain.advice.program.serving import waits_for_blocks, waits_for_seats
from gputui.explain.advice.program.training import kept_gradients, one_worker, optimizer_states, unused_graph
from gputui.explain.advice.relevance import relevant
from gputui.explain.advice.situation import Situation, situation_of
from gputui.model.attached.finding import Finding
from gputui.model.attached.moment import DeviceMoment, TargetMoment
from gputui.model.attached.timeline import Timeline
from gputui.model.machine.process import Workers
from gputui.model.reading import NOT_READ, Reading
from gputui.model.weight import Weight

Rule = Callable[[Situation], "Finding | None"]

RULES: tuple[Rule, ...] = (
    out_of_memory,
    leak,
    kept_by_exception,
    kept_by_cycle,
    kept_by_gradient_graph,
    kept_by_output,
    kept_by_optimizer,
    small_views,
    churn,
    scattered,
    split,
    unused_graph,
    kept_graph,
    container_tensors,
    second_model,
    weight_copy,
    gradient_buckets,
    kept_gradients,
    stuck,
    retries,
    optimizer_states,
    one_worker,
    batch,
    kv_cache,
    waits_for_blocks,
    waits_for_seats,
    idle_context,
    visitors,
    nccl,
    pools,
    pending,
    rounding,
    pinned_rounding,
    unmapped,
    gap,
    others,
    release,
    room,
)
"""Each makes one finding, or none; `relevance` chooses among them and puts them in order."""

_ORDER = tuple(Weight)


def findings_of(moment: TargetMoment, timeline: Timeline | None = None) -> tuple[tuple[DeviceMoment, Finding], ...]:
    """The findings about each device on which the process holds memory, problems of any device first."""
    device_findings = [
        (
            device,
            findings(
                moment,
                device.index,
                timeline,
                workers=moment.host.workers,
                utilization_percent=device.driver.utilization_percent,
            ),
        )
        for device in moment.held_devices
    ]
    pairs = [(device, finding) for device, some in device_findings for finding in some]
    return tuple(sorted(pairs, key=lambda pair: _ORDER.index(pair[1].weight)))


def findings(
    moment: TargetMoment,
    device: int,
    timeline: Timeline | None = None,
    *,
    workers: Workers | None = None,
    utilization_percent: Reading[float] = NOT_READ,
) -> tuple[Finding, ...]:
    """The findings about a device (PyTorch's index) at a moment, problems first.

    `timeline` is the process's; what came after `moment` is left out. `workers` and `utilization_percent` are what the
    monitor reads of the process and of the physical device.
    """
    device_moment = next((candidate for candidate in moment.devices if candidate.index == device), None)
    if device_moment is None:
        return ()
    situation = replace(
        situation_of(moment, device_moment, timeline), workers=workers, utilization_percent=utilization_percent
    )
    return relevant((finding for rule in RULES if (finding := rule(situation)) is not None), situation)

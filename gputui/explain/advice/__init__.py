"""Why a device's memory looks as it does, and what to do: rules that each make one finding about it, or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gputui.explain.advice.beside import nccl, pinned_rounding, unmapped
from gputui.explain.advice.cache import churn, release
from gputui.explain.advice.contexts import idle_context, visitors
from gputui.explain.advice.copies import second_model
from gputui.explain.advice.driver import gap, others, pending, pools, rounding
from gputui.explain.advice.failures import out_of_memory, retries, room
from gputui.explain.advice.growth import leak
from gputui.explain.advice.idle import container_tensors, kept_graph
from gputui.explain.advice.keepers import kept_by_exception, kept_by_optimizer, kept_by_output
from gputui.explain.advice.kv_cache import kv_cache
from gputui.explain.advice.relevance import relevant
from gputui.explain.advice.situation import Situation, situation_of
from gputui.explain.advice.stuck import scattered, split, stuck
from gputui.explain.advice.training import kept_gradients, one_worker, optimizer_states, unused_graph
from gputui.model.finding import Finding, Weight
from gputui.model.moment import CounterPoint, DeviceMoment, TargetMoment
from gputui.model.process import Workers
from gputui.model.reading import NOT_READ, Reading

Rule = Callable[[Situation], "Finding | None"]

RULES: tuple[Rule, ...] = (
    out_of_memory,
    leak,
    kept_by_exception,
    kept_by_output,
    kept_by_optimizer,
    churn,
    scattered,
    split,
    unused_graph,
    kept_graph,
    container_tensors,
    second_model,
    kept_gradients,
    stuck,
    retries,
    optimizer_states,
    one_worker,
    kv_cache,
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


def findings_of(
    moment: TargetMoment, points: Sequence[CounterPoint] = (), moments: Sequence[TargetMoment] = ()
) -> tuple[tuple[DeviceMoment, Finding], ...]:
    """The findings about each device on which the process holds memory, problems of any device first."""
    device_findings = [
        (
            device,
            findings(
                moment,
                device.index,
                points,
                moments,
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
    points: Sequence[CounterPoint] = (),
    moments: Sequence[TargetMoment] = (),
    *,
    workers: Workers | None = None,
    utilization_percent: Reading[float] = NOT_READ,
) -> tuple[Finding, ...]:
    """The findings about a device (PyTorch's index) at a moment, problems first.

    `points` and `moments` are a timeline's; later ones than `moment` are left out. `workers` and
    `utilization_percent` are what the monitor reads of the process and of the physical device.
    """
    device_moment = next((candidate for candidate in moment.devices if candidate.index == device), None)
    if device_moment is None:
        return ()
    situation = replace(
        situation_of(moment, device_moment, points, moments), workers=workers, utilization_percent=utilization_percent
    )
    return relevant((finding for rule in RULES if (finding := rule(situation)) is not None), situation)

"""Habits that cost memory or time: kept gradients, unused autograd graphs, 32-bit optimizer states, one worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import dropwhile
from math import prod

from gputui.explain.advice.situation import (
    STANDS_STILL,
    Seen,
    Situation,
    addresses_of,
    category_bytes,
    is_moving,
    saved_bytes,
)
from gputui.explain.advice.thresholds import (
    BUSY_CPU_PERCENT,
    FORWARD_BYTES,
    FORWARD_LOOKS,
    GRADIENT_SHARE,
    HABIT_LOOKS,
    IDLE_PERCENT,
    PART_BYTES,
    STATE_BYTES_PER_PARAMETER,
    STATE_SHARE,
    TIGHT_SHARE,
    UNUSED_GRAPH_BYTES,
    UNUSED_GRAPH_SPAN_S,
)
from gputui.explain.owners.names import listed
from gputui.model.attached.analysis import Finding
from gputui.model.attached.moment import DeviceLayout
from gputui.model.attached.owners import root_of
from gputui.model.attached.tensors import Category
from gputui.model.reading import Absent, value_of
from gputui.model.weight import Weight
from gputui.units import format_bytes, format_duration


def kept_gradients(situation: Situation) -> Finding | None:
    """Gradients stay through every forward pass, beside the activations, or in a program that stands still."""
    if situation.is_idle:
        return _left_gradients(situation)
    whole = [look for look in situation.looks if look.is_complete]
    looks = _since_there_were(Category.GRADIENT, whole if len(whole) >= HABIT_LOOKS else situation.looks)
    least = min((category_bytes(look.layout, Category.GRADIENT) for look in looks), default=0)
    if least < PART_BYTES:
        return None
    forwards = [look for look in looks if saved_bytes(look.layout) >= FORWARD_BYTES]
    if len(forwards) < FORWARD_LOOKS or not is_moving(forwards):
        return None
    layout = max(forwards, key=lambda look: category_bytes(look.layout, Category.ACTIVATION)).layout
    if least < GRADIENT_SHARE * layout.statistics.allocated_bytes:
        return None
    roots = dict.fromkeys(s.owner.root for s in layout.storages if s.category is Category.GRADIENT)
    of_model = f" of {listed(roots)}" if roots else ""
    optimizer = _optimizer_of(layout, roots)
    evidence = (
        f"They were there in each of {len(looks)} looks, {len(forwards)} of them during a forward pass, which had saved"
        f" up to {format_bytes(saved_bytes(layout))} for backward."
    )
    return Finding(
        weight=Weight.ADVICE,
        title=f"{format_bytes(least)} of gradients{of_model} are kept through the forward pass.",
        evidence=(evidence,),
        remedy=f"Call {optimizer}.zero_grad(set_to_none=True) right after {optimizer}.step(), unless gradients are"
        " accumulated over several batches.",
        bytes=least,
        screen="tensors",
        addresses=addresses_of(layout, Category.GRADIENT),
    )


def _optimizer_of(layout: DeviceLayout, models: Collection[str]) -> str:
    """The variable of an optimizer with states for one of these models; "optimizer" if none is known."""
    states = (s.owner.state for s in layout.storages if s.category is Category.OPTIMIZER_STATE)
    return next((state.optimizer for state in states if root_of(state.parameter) in models), "optimizer")


def _left_gradients(situation: Situation) -> Finding | None:
    """Gradients stay in a program that stands still, such as a notebook between two cells."""
    layout = situation.device.layout
    left = category_bytes(layout, Category.GRADIENT) if layout else 0
    if layout is None or left < max(PART_BYTES, GRADIENT_SHARE * layout.statistics.allocated_bytes):
        return None
    roots = list(dict.fromkeys(s.owner.root for s in layout.storages if s.category is Category.GRADIENT))
    models = listed(roots)
    return Finding(
        weight=Weight.ADVICE,
        title=f"{models} still {'have' if len(roots) > 1 else 'has'} {format_bytes(left)} of gradients.",
        evidence=("They were still there when the program ended." if situation.moment.ended else STANDS_STILL,),
        remedy=f"To free them: {' and '.join(f'{root}.zero_grad(set_to_none=True)' for root in roots[:2])}.",
        bytes=left,
        screen="tensors",
        addresses=addresses_of(layout, Category.GRADIENT),
    )


def unused_graph(situation: Situation) -> Finding | None:
    """Activations are saved in a program that runs no backward pass: evaluation without `no_grad`."""
    looks = situation.looks
    if len(looks) < HABIT_LOOKS or looks[-1].time - looks[0].time < UNUSED_GRAPH_SPAN_S or not is_moving(looks):
        return None
    trained = (Category.GRADIENT, Category.OPTIMIZER_STATE)
    if any(category_bytes(look.layout, kind) for look in looks for kind in trained):
        return None
    most = max(looks, key=lambda look: category_bytes(look.layout, Category.ACTIVATION))
    saved = saved_bytes(most.layout)
    if saved < UNUSED_GRAPH_BYTES:
        return None
    span = format_duration(looks[-1].time - looks[0].time)
    evidence = (
        f"{len(looks)} looks in {span} found activations saved for backward, but no gradient and no optimizer state."
    )
    return Finding(
        weight=Weight.ADVICE,
        title=f"{format_bytes(saved)} is saved for a backward pass that never runs.",
        evidence=(evidence,),
        remedy="If this is evaluation, run it under torch.no_grad() or torch.inference_mode(); model.eval() alone still"
        " records the graph.",
        bytes=saved,
        screen="tensors",
        addresses=addresses_of(most.layout, Category.ACTIVATION),
    )


def optimizer_states(situation: Situation) -> Finding | None:
    """The optimizer keeps two 32-bit states or more for each parameter."""
    layout = situation.device.layout
    if layout is None:
        return None
    sizes, elements = _states(layout)
    total, allocated = sum(sizes.values()), layout.statistics.allocated_bytes
    most = max(elements.values(), default=0)
    if most <= 0 or allocated <= 0 or total < max(PART_BYTES, STATE_SHARE * allocated):
        return None
    per_parameter = total / most
    if per_parameter < STATE_BYTES_PER_PARAMETER:
        return None
    evidence = (
        f"{listed(f'{name} {format_bytes(size)}' for name, size in sizes.most_common())}, in float32; that is"
        f" {total / allocated:.0%} of the allocated memory."
    )
    share = f"{per_parameter:.0f} bytes for each of {_count(most)} parameters"
    return Finding(
        weight=Weight.ADVICE if _is_tight(situation) else Weight.FACT,
        title=f"The optimizer keeps {format_bytes(total)}: {share}.",
        evidence=(evidence,),
        remedy=_alternatives(total, situation.moment.greeting.world_size or 1),
        bytes=total,
        screen="tensors",
        addresses=addresses_of(layout, Category.OPTIMIZER_STATE),
    )


def _is_tight(situation: Situation) -> bool:
    """Whether the largest tensor that still fits is below `TIGHT_SHARE` of the device."""
    room, total = situation.device.room, value_of(situation.device.driver.device_total_bytes)
    return room is not None and bool(total) and room.after_release_bytes < TIGHT_SHARE * (total or 0)


def one_worker(situation: Situation) -> Finding | None:
    """The device waits for the only worker of a DataLoader."""
    workers, utilization = situation.moment.host.workers, situation.device.driver.utilization_percent
    if workers is None or isinstance(utilization, Absent):
        return None
    if workers.count != 1 or workers.cpu_percent < BUSY_CPU_PERCENT or utilization >= IDLE_PERCENT:
        return None
    evidence = (
        f"The device is {utilization:.0f}% busy; the only DataLoader worker uses {workers.cpu_percent:.0f}% of a core."
    )
    return Finding(
        weight=Weight.ADVICE,
        title="The device waits for data: one worker loads all of it.",
        evidence=(evidence,),
        remedy="Use more workers, DataLoader(..., num_workers=N), until the device stays busy.",
    )


def _since_there_were(category: Category, looks: Sequence[Seen]) -> Sequence[Seen]:
    """The looks since there is as much of a category as now: a first step has yet to allocate its gradients."""
    now = category_bytes(looks[-1].layout, category) if looks else 0
    return tuple(dropwhile(lambda look: category_bytes(look.layout, category) < now, looks))


def _states(layout: DeviceLayout) -> tuple[Counter[str], Counter[str]]:
    """Bytes and elements of the float32 optimizer states, by the name of the state ("exp_avg")."""
    sizes: Counter[str] = Counter()
    elements: Counter[str] = Counter()
    for storage in layout.storages:
        if storage.category is not Category.OPTIMIZER_STATE or storage.dtype != "float32" or not storage.shape:
            continue
        slot = storage.owner.state.slot
        if slot:
            sizes[slot] += storage.size_bytes
            elements[slot] += prod(storage.shape)
    return sizes, elements


def _alternatives(total: int, world_size: int) -> str:
    advice = f"8-bit states (bitsandbytes, torchao) would take about {format_bytes(total / 4)}, Adafactor less."
    if world_size > 1:
        share = format_bytes(total / world_size)
        advice += f" Sharded over the {world_size} ranks (ZeroRedundancyOptimizer, FSDP) they would be {share} on each."
    return advice


def _count(number: int) -> str:
    for step, unit in ((10**9, "billion"), (10**6, "million"), (10**3, "thousand")):
        if number >= step:
            return f"{number / step:.1f} {unit}"
    return str(number)

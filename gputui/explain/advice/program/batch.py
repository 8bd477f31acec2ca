"""What each sample of a batch needs within a step; if looks saw two batch sizes, also what a step needs besides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from gputui.explain.advice.situation import Situation, category_bytes
from gputui.explain.memory.need import OF_PEAK, need_of
from gputui.explain.owners.names import listed
from gputui.model.attached.analysis import Finding
from gputui.model.attached.moment import DeviceLayout
from gputui.model.attached.tensors import Category
from gputui.model.weight import Weight
from gputui.units import format_bytes

OF_ACTIVATIONS, LEAST_PART = 0.5, 0.1
"""The batch size divides the first dimension of the first share of the activations at least, since models flatten a
batch of sequences to one of words; and it is itself the first dimension of the second share at least."""
NAMELESS_AT_MOST = 0.1
"""Of the allocated bytes: a look with more memory without a name has not seen all activations."""
OF_NEED = 0.25
"""Of the memory held only within a step: with fewer activations, the batch size decides little."""

Highest = Mapping[int, tuple[int, int]]
"""By batch size: the allocated bytes in the highest look at it, and the bytes of activations in that look."""


def batch(situation: Situation) -> Finding | None:
    """How much each sample of a batch needs."""
    need, top = need_of(situation.device), situation.device.top
    highest = highest_of([*(look.layout for look in situation.looks), *([top] if top else [])])
    if need is None or not highest:
        return None
    size, (allocated_bytes, activation_bytes) = max(highest.items(), key=lambda item: item[1][0])
    if allocated_bytes < OF_PEAK * need.highest_bytes or activation_bytes < OF_NEED * need.within_bytes:
        return None  # no look came near the top, or the batch decides little
    return _slope(highest, need.highest_bytes) or _finding(
        f"Each sample of a batch of {size:,} needs about {format_bytes(activation_bytes // size)} within a step.",
        f"Near the top of a step {format_bytes(activation_bytes)} of activations were held, most of them with a first"
        f" dimension of {size:,}.",
        activation_bytes,
    )


def _slope(highest: Highest, need_bytes: int) -> Finding | None:
    """The need of a sample from the smallest and the largest batch; None with one batch size, or without a line.

    Looks come before the backward pass, whose own memory grows with the batch, too. So looks tell what a step needs
    without any sample, and the step's need tells what the samples of the largest batch need.
    """
    (small, (small_bytes, _)), (large, (large_bytes, _)) = min(highest.items()), max(highest.items())
    if small == large or large_bytes <= small_bytes:
        return None
    rest_bytes = small_bytes - small * (large_bytes - small_bytes) // (large - small)
    if rest_bytes < 0:
        return None
    sample_bytes = (max(need_bytes, large_bytes) - rest_bytes) // large
    seen = listed(
        f"{format_bytes(allocated)} with a batch of {size:,}" for size, (allocated, _) in sorted(highest.items())
    )
    return _finding(
        f"A step needs about {format_bytes(rest_bytes)}, and {format_bytes(sample_bytes)} more for each sample of its"
        " batch.",
        f"A step needs up to {format_bytes(need_bytes)}; the highest looks had {seen}.",
        large_bytes,
    )


def _finding(title: str, evidence: str, size_bytes: int) -> Finding:
    return Finding(Weight.FACT, title, (evidence,), bytes=size_bytes, screen="tensors")


def highest_of(layouts: Iterable[DeviceLayout]) -> Highest:
    """The highest look at each batch size, of looks that have named nearly all memory."""
    highest: dict[int, tuple[int, int]] = {}
    for layout in layouts:
        size = size_of_batch(layout) if _is_named(layout) else 0
        if size:
            sums = layout.statistics.allocated_bytes, _saved_bytes(layout)
            highest[size] = max(highest.get(size, (0, 0)), sums)
    return highest


def _saved_bytes(layout: DeviceLayout) -> int:
    """The bytes of activations saved for a backward pass; results that only variables hold do not count."""
    return sum(group.saved_bytes for group in layout.groups if group.category is Category.ACTIVATION)


def _is_named(layout: DeviceLayout) -> bool:
    nameless = sum(category_bytes(layout, category) for category in (Category.UNATTRIBUTED, Category.NEWER))
    return nameless <= NAMELESS_AT_MOST * layout.statistics.allocated_bytes


def size_of_batch(layout: DeviceLayout) -> int:
    """The first dimension that divides that of most activations, the likely batch size; 0 if there is none."""
    sizes: Counter[int] = Counter()
    for group in layout.groups:
        if group.category is Category.ACTIVATION and len(group.shape) > 1:
            sizes[group.shape[0]] += group.saved_bytes
    total = _saved_bytes(layout)
    shared = {
        size: sum(sizes[other] for other in sizes if size and other % size == 0)
        for size in sizes
        if sizes[size] >= LEAST_PART * total
    }
    size = max(shared, key=lambda size: (shared[size], size), default=0)
    return size if size and shared[size] >= OF_ACTIVATIONS * total else 0

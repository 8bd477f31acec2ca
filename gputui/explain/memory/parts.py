"""A device's memory in parts, each byte once: other processes, this process outside PyTorch, PyTorch's, the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gputui.model.attached.analysis import Composition
from gputui.model.attached.moment import DeviceLayout, DeviceMoment
from gputui.model.attached.tensors import CATEGORIES, OF_VARIABLES, Category
from gputui.model.reading import Absent


@dataclass(frozen=True, slots=True)
class Part:
    """A part with its bytes; `key` selects its style, `letter` stands for it where there are no colours.

    Only the parts in `SINCE` can be below 0: if memory was freed since the look that the other parts come from.
    """

    key: str
    letter: str
    name: str
    bytes: int


class StateFacts(NamedTuple):
    """How reserved bytes that no tensor requested are shown; their colours are in `styles.tcss`."""

    letter: str
    short: str
    """In the legend of the map."""
    words: str
    """Of one block, or of the rounding of one block."""
    plural: str
    """Of all such blocks together, on the bar."""
    bytes_in: Callable[[Composition], int]


STATES = {
    "rounding": StateFacts("r", "round", "rounding", "rounding", lambda parts: parts.rounding_bytes),
    "pending": StateFacts("p", "pend", "pending", "pending on a stream", lambda parts: parts.pending_bytes),
    "stuck": StateFacts("s", "stuck", "stuck", "stuck", lambda parts: parts.stuck_bytes),
    "private": StateFacts(
        "v", "pool", "free in private pool", "free in private pools", lambda parts: parts.private_pool_free_bytes
    ),
    "releasable": StateFacts("c", "cache", "releasable", "releasable", lambda parts: parts.releasable_bytes),
}
"""In the order in which they are shown, by the part's `key`."""

TENSORS_SINCE, CACHE_SINCE = "since", "cached-since"
SINCE = frozenset({TENSORS_SINCE, CACHE_SINCE})
"""The parts for the difference between the newest counters and an older look."""

OUTER = frozenset({"others", "outside", "driver", "free"})
"""Parts of the device's memory that PyTorch has not reserved."""

GIVES_WAY = {
    TENSORS_SINCE: (
        *(category.value for category in OF_VARIABLES),
        *("kv_cache", "gradient", "workspace", "rounding", *(category.value for category in reversed(CATEGORIES))),
    ),
    CACHE_SINCE: ("releasable", "private", "stuck", "pending"),
}
"""In a drawing, the parts that a part below 0 is subtracted from: first what comes and goes in every step."""


_NAMED = frozenset(Category) - {Category.UNATTRIBUTED, Category.NEWER}


def parts_of(device: DeviceMoment) -> tuple[Part, ...]:
    """The parts from the outside in, without empty ones.

    PyTorch's parts add up to the newest counters: where the counters are newer than the look, the parts in `SINCE` are
    the difference. Without NVML's readings, the parts outside PyTorch are missing. Without a look, PyTorch's parts come
    from the counters alone: allocated, pending and cached.
    """
    inside = _layout_parts(device, device.layout) if device.layout else _counter_parts(device)
    parts = (*_outer_parts(device), *inside, *_free_part(device))
    return tuple(part for part in parts if part.bytes > 0 or (part.bytes and part.key in SINCE))


def drawn(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The same parts with none below 0, as a bar shows them: see `GIVES_WAY`."""
    sizes = {part.key: part.bytes for part in parts}
    for key, others in GIVES_WAY.items():
        owed = -min(0, sizes.get(key, 0))
        for other in others:
            taken = min(owed, sizes.get(other, 0))
            if taken:
                sizes[other] -= taken
                owed -= taken
    return tuple(replace(part, bytes=sizes[part.key]) for part in parts if sizes[part.key] > 0)


def _outer_parts(device: DeviceMoment) -> list[Part]:
    bridge = device.bridge
    parts = []
    if bridge is not None and not isinstance(bridge.other_processes_bytes, Absent):
        parts.append(Part("others", "#", "other processes", bridge.other_processes_bytes))
    if bridge is not None and not isinstance(bridge.outside_torch_bytes, Absent):
        parts.append(Part("outside", "x", "outside PyTorch", bridge.outside_torch_bytes))
    return parts


def _free_part(device: DeviceMoment) -> list[Part]:
    total, used, free = (
        device.driver.device_total_bytes,
        device.driver.device_used_bytes,
        device.driver.device_free_bytes,
    )
    if isinstance(total, Absent) or isinstance(used, Absent) or isinstance(free, Absent):
        return []
    reserved = Part("driver", "d", "driver's own", total - used - free)
    return [reserved, Part("free", ".", "free on device", free)]


def _layout_parts(device: DeviceMoment, layout: DeviceLayout) -> list[Part]:
    composition = layout.release.composition
    is_sure = layout.release.least_bytes >= composition.releasable_bytes
    rounding = _rounding_by_category(layout)
    live = [
        Part(
            category.value, facts.letter, facts.plural, layout.by_category.get(category, 0) - rounding.get(category, 0)
        )
        for category, facts in CATEGORIES.items()
    ]
    if not layout.names_time and not any(layout.by_category.get(category, 0) for category in _NAMED):
        live = [
            Part("allocated", "a", "allocated", part.bytes) for part in live if part.key == Category.UNATTRIBUTED.value
        ]
    rounding_of_all, *free = (_state(key, facts.bytes_in(composition)) for key, facts in STATES.items())
    live.append(rounding_of_all)
    if not is_sure:
        free[-1] = replace(free[-1], name=f"perhaps {free[-1].name}")
    now = device.statistics
    live_since = now.allocated_bytes - sum(part.bytes for part in live)
    free_since = now.reserved_bytes - now.allocated_bytes - sum(part.bytes for part in free)
    return [
        *live,
        Part(TENSORS_SINCE, "+", "tensors since the look", live_since),
        *free,
        Part(CACHE_SINCE, "-", "free since the look", free_since),
    ]


def _rounding_by_category(layout: DeviceLayout) -> dict[Category, int]:
    rounding: dict[Category, int] = {}
    for blocker in layout.blockers:
        added = blocker.block.size_bytes - blocker.block.requested_bytes
        rounding[blocker.owner.category] = rounding.get(blocker.owner.category, 0) + added
    return rounding


def _state(key: str, size_bytes: int) -> Part:
    return Part(key, STATES[key].letter, STATES[key].plural, size_bytes)


def _counter_parts(device: DeviceMoment) -> list[Part]:
    counted = device.statistics
    return [
        Part("allocated", "a", "allocated", counted.allocated_bytes),
        _state("pending", counted.active_bytes - counted.allocated_bytes),
        Part("cached", "c", "cached, not looked at", counted.reserved_bytes - counted.active_bytes),
    ]

"""What the rules reason about: one device at a moment, with its counters and looks until then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gputui.explain.advice.thresholds import FULL_SHARE, IDLE_S, LOOKS_AT_MOST, WINDOW_S
from gputui.model.attached.counters import Counted, Counters
from gputui.model.attached.moment import DeviceLayout, DeviceMoment, TargetMoment
from gputui.model.attached.tensors import Category, Inventory
from gputui.model.attached.timeline import Timeline
from gputui.model.reading import value_of

STANDS_STILL = "The program stands still now: it has neither allocated nor freed memory for some seconds."
"""Evidence in findings about an idle program."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A look at the device, and when it was taken (epoch seconds)."""

    time: float
    layout: DeviceLayout
    inventory: Inventory | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the look had time for all tensors."""
        return self.inventory is None or self.inventory.is_complete


@dataclass(frozen=True, slots=True)
class Situation:
    """A device at a moment; `counters` are those until the moment, `looks` and `bare_looks` are oldest first.

    Bare looks had no time for the tensors. Their blocks have owners from an earlier look, or none, so bare looks cannot
    be compared with the others.
    """

    moment: TargetMoment
    device: DeviceMoment
    counters: Counters
    looks: tuple[Seen, ...]
    bare_looks: tuple[Seen, ...] = ()

    @property
    def window(self) -> tuple[Counted, ...]:
        """The counters of the last `WINDOW_S` seconds, oldest first; at least those of the moment."""
        return self.counters.last(WINDOW_S)

    @property
    def was_never_full(self) -> bool:
        """Whether PyTorch's peak plus other processes is below `FULL_SHARE` of the device; False if that is unknown."""
        total, bridge = value_of(self.device.driver.device_total_bytes), self.device.bridge
        others = value_of(bridge.other_processes_bytes) if bridge else 0
        return self.device.statistics.peak_reserved_bytes + (others or 0) < FULL_SHARE * (total or 0)

    @property
    def is_idle(self) -> bool:
        """Whether the program has allocated and freed nothing for `IDLE_S`, and the newest look shows this state."""
        layout, generation = self.device.layout, self.device.statistics.generation
        if layout is None or layout.statistics.generation != generation:
            return False
        before = self.counters.at(self.moment.time - IDLE_S)
        since = (counted.statistics.generation for counted in self.counters.last(IDLE_S))
        return before is not None and before.generation == generation and all(now == generation for now in since)


def situation_of(moment: TargetMoment, device: DeviceMoment, timeline: Timeline | None = None) -> Situation:
    """The situation at `moment`, from the timeline until then; without a timeline, from the moment alone."""
    timeline = timeline or Timeline(moment)
    looks = _looks((*timeline.looks(moment.time), moment), device.index)
    return Situation(
        moment=moment,
        device=device,
        counters=timeline.counters(device.index, moment.time),
        looks=_some([look for look in looks if look.layout.names_time == look.time]),
        bare_looks=_some([look for look in looks if look.layout.names_time != look.time]),
    )


def _looks(moments: Sequence[TargetMoment], device: int) -> list[Seen]:
    """The looks in these moments, each once, although many moments may show it."""
    layouts = {}
    for moment in moments:
        for shown in moment.devices:
            if shown.index == device and shown.layout is not None:
                layouts[moment.look_time] = (shown.layout, moment.inventory)
    return [Seen(at, layout, inventory) for at, (layout, inventory) in layouts.items()]


def _some(looks: Sequence[Seen]) -> tuple[Seen, ...]:
    """At most `LOOKS_AT_MOST` of the looks, evenly spread, the newest one included."""
    return tuple(looks[:: -max(1, -(-len(looks) // LOOKS_AT_MOST))][::-1])


def category_bytes(layout: DeviceLayout, category: Category) -> int:
    """How many bytes of a category a look found."""
    return layout.by_category.get(category, 0)


def saved_bytes(layout: DeviceLayout) -> int:
    """The bytes that autograd graphs have saved for a backward pass; 0 without activations."""
    if not category_bytes(layout, Category.ACTIVATION):
        return 0
    return sum(blocker.block.size_bytes for blocker in layout.blockers if blocker.owner.saved_by)


def is_moving(looks: Sequence[Seen]) -> bool:
    """Whether the program allocated or freed anything between the looks."""
    return looks[-1].layout.statistics.generation != looks[0].layout.statistics.generation


def addresses_of(layout: DeviceLayout, category: Category) -> tuple[int, ...]:
    """The blocks of a category, the largest first."""
    members = [blocker.block for blocker in layout.blockers if blocker.owner.category is category]
    return tuple(block.address for block in sorted(members, key=lambda block: -block.size_bytes))

"""What the rules look at: one device at a moment, and its earlier counters and looks."""

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
"""Said of an idle program."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A look at the device, and when it was."""

    time: float
    layout: DeviceLayout
    inventory: Inventory | None = None

    @property
    def is_complete(self) -> bool:
        """Whether there was time for all tensors."""
        return self.inventory is None or self.inventory.is_complete


@dataclass(frozen=True, slots=True)
class Situation:
    """`counters` are those until the moment; `looks` and `bare_looks` are oldest first.

    Bare looks had no time for the tensors: their blocks have owners from an earlier look, or none, so they cannot be
    compared with the other looks.
    """

    moment: TargetMoment
    device: DeviceMoment
    counters: Counters
    looks: tuple[Seen, ...]
    bare_looks: tuple[Seen, ...] = ()

    @property
    def window(self) -> tuple[Counted, ...]:
        """The counters of the last `WINDOW_S`."""
        return self.counters.last(WINDOW_S)

    @property
    def was_never_full(self) -> bool:
        """Whether PyTorch's peak and other processes together are far below the device's size."""
        total, bridge = value_of(self.device.driver.device_total_bytes), self.device.bridge
        others = value_of(bridge.other_processes_bytes) if bridge else 0
        return self.device.statistics.peak_reserved_bytes + (others or 0) < FULL_SHARE * (total or 0)

    @property
    def is_idle(self) -> bool:
        """Whether the program has allocated and freed nothing for some seconds, and the look is of this state."""
        layout, generation = self.device.layout, self.device.statistics.generation
        if layout is None or layout.statistics.generation != generation:
            return False
        before = self.counters.at(self.moment.time - IDLE_S)
        since = (counted.statistics.generation for counted in self.counters.last(IDLE_S))
        return before is not None and before.generation == generation and all(now == generation for now in since)


def situation_of(moment: TargetMoment, device: DeviceMoment, timeline: Timeline | None = None) -> Situation:
    """`timeline` is the process's, with the moment; what came after it is left out. None: there is only that."""
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
    """Each look once, although many moments show it."""
    layouts = {}
    for moment in moments:
        for shown in moment.devices:
            if shown.index == device and shown.layout is not None:
                layouts[moment.look_time] = (shown.layout, moment.inventory)
    return [Seen(at, layout, inventory) for at, (layout, inventory) in layouts.items()]


def _some(looks: Sequence[Seen]) -> tuple[Seen, ...]:
    """At most `LOOKS_AT_MOST` of the looks, evenly spread, with the newest."""
    return tuple(looks[:: -max(1, -(-len(looks) // LOOKS_AT_MOST))][::-1])


def category_bytes(layout: DeviceLayout, category: Category) -> int:
    """How much memory of a category a look found."""
    return layout.by_category.get(category, 0)


def saved_bytes(layout: DeviceLayout) -> int:
    """What the autograd graph saved for a backward pass that has not run yet."""
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

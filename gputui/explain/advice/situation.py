"""What the rules may look at: one device at a moment, and what was seen of it before."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from gputui.explain.advice.thresholds import LOOKS_AT_MOST, WINDOW_S
from gputui.model.allocator import AllocatorStatistics
from gputui.model.moment import CounterPoint, DeviceLayout, DeviceMoment, TargetMoment
from gputui.model.process import Workers
from gputui.model.reading import NOT_READ, Reading
from gputui.model.tensors import Category


@dataclass(frozen=True, slots=True)
class Counted:
    """The counters of the device at a time."""

    time: float
    statistics: AllocatorStatistics


@dataclass(frozen=True, slots=True)
class Seen:
    """A look at the device at a time."""

    time: float
    layout: DeviceLayout


@dataclass(frozen=True, slots=True)
class Situation:
    """`counters`, `looks` and `bare_looks` are oldest first; `workers` load the data of the process.

    Bare looks are those that had no time for the tensors: their blocks have the owners that are still known, or none,
    and what they say of those that come and go is not to be compared with others.
    """

    moment: TargetMoment
    device: DeviceMoment
    counters: tuple[Counted, ...]
    looks: tuple[Seen, ...]
    bare_looks: tuple[Seen, ...] = ()
    workers: Workers | None = None
    utilization_percent: Reading[float] = field(default=NOT_READ)

    @property
    def window(self) -> tuple[Counted, ...]:
        """The counters of the last `WINDOW_S`."""
        start = self.moment.time - WINDOW_S
        return tuple(point for point in self.counters if point.time >= start)


def situation_of(
    moment: TargetMoment,
    device: DeviceMoment,
    points: Sequence[CounterPoint] = (),
    moments: Sequence[TargetMoment] = (),
) -> Situation:
    """`points` and `moments` are what was seen of the process so far; those after `moment` are left out."""
    looks = _looks((*(each for each in moments if each.time < moment.time), moment), device.index)
    own = CounterPoint(moment.time, tuple(each.statistics for each in moment.devices))
    earlier = [point for point in points if point.time < moment.time]
    return Situation(
        moment=moment,
        device=device,
        counters=tuple(
            Counted(point.time, statistics)
            for point in (*earlier, own)
            for statistics in point.statistics
            if statistics.device == device.index
        ),
        looks=_some([look for look in looks if look.layout.names_time == look.time]),
        bare_looks=_some([look for look in looks if look.layout.names_time != look.time]),
    )


def _looks(moments: Sequence[TargetMoment], device: int) -> list[Seen]:
    """Each look once, although many moments show it."""
    found = {}
    for moment in moments:
        for each in moment.devices:
            if each.index == device and each.layout is not None:
                found[moment.look_time] = each.layout
    return [Seen(at, layout) for at, layout in found.items()]


def _some(looks: Sequence[Seen]) -> tuple[Seen, ...]:
    """Of very many looks some, the newest among them."""
    return tuple(looks[:: -max(1, -(-len(looks) // LOOKS_AT_MOST))][::-1])


def category_bytes(layout: DeviceLayout, category: Category) -> int:
    """The bytes of a category in a look."""
    return layout.by_category.get(category, 0)


def saved_bytes(layout: DeviceLayout) -> int:
    """What operations of the autograd graph keep for a backward pass that has not run."""
    if not category_bytes(layout, Category.ACTIVATION):
        return 0
    return sum(
        blocker.block.size_bytes
        for segment in layout.release.segments
        for blocker in segment.blockers
        if blocker.owner.saved_by
    )


def clock(moment: float) -> str:
    """The time of day of an epoch time."""
    return time.strftime("%H:%M:%S", time.localtime(moment))

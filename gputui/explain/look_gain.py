"""What a look on request has added to what was known."""

from __future__ import annotations

from gputui.explain.earlier_names import is_unnamed
from gputui.model.moment import DeviceLayout, TargetMoment
from gputui.model.tensors import Category
from gputui.units import format_bytes

NAMELESS = (Category.UNATTRIBUTED, Category.NEWER)


NAMED_WELL = 0.99
"""A look that has named this share of the memory needs no other."""


def is_well_named(moment: TargetMoment) -> bool:
    """Whether the moment's look has named nearly all memory, on every device that it has a map of."""
    layouts = [device.layout for device in moment.devices if device.layout]
    return all(_found_bytes(layout) >= NAMED_WELL * layout.statistics.allocated_bytes for layout in layouts)


def _found_bytes(layout: DeviceLayout) -> int:
    """What is named better than "unnamed Tensor"."""
    device = layout.statistics.device
    loose = [storage.size_bytes for storage in layout.storages if storage.device == device and is_unnamed(storage)]
    return named_bytes(layout) - sum(loose)


def look_gain(before: TargetMoment, after: TargetMoment) -> str:
    """A sentence about the look of `after`, which was asked for at `before`; "" if it has not come yet."""
    if after.look_time <= before.look_time or after.look is None or after.look.inventory is None:
        return ""
    layouts = [device.layout for device in after.devices if device.layout]
    if not layouts or any(layout.names_time < after.look_time for layout in layouts):
        return ""
    named = sum(map(named_bytes, layouts))
    earlier = sum(named_bytes(device.layout) for device in before.devices if device.layout)
    allocated = sum(layout.statistics.allocated_bytes for layout in layouts)
    gained = named - earlier
    what = f"named {format_bytes(gained)} more" if gained > 0 else "named nothing new"
    share = f"{named / allocated:.0%} of {format_bytes(allocated)}" if allocated else "all"
    pause = f" It paused the program for {after.look_cost.pause_ms:.0f} ms." if after.look_cost else ""
    return f"The look {what}: {share} has a known owner.{pause}"


def named_bytes(layout: DeviceLayout) -> int:
    """How much of a look's live memory has an owner."""
    return sum(size for category, size in layout.by_category.items() if category not in NAMELESS)

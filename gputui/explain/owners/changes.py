"""Which live blocks were allocated and which were freed between two moments, grouped by kind of tensor."""

from __future__ import annotations

from gputui.explain.owners.owners import grouped
from gputui.model.attached.analysis import Changes, Owner
from gputui.model.attached.moment import DeviceLayout, DeviceMoment
from gputui.model.attached.tensors import NAMELESS

BlockKey = tuple[int, int]
"""Address and size in bytes."""

NO_LOOK = "There was no look {}: only the counters can be compared."


def changes(before: DeviceMoment, after: DeviceMoment) -> Changes:
    """What changed on one device from the look of `before` to the look of `after`.

    A block is the same if its address, size and owner are the same; an unknown owner at one of the moments counts as
    the same. A tensor that moved counts as freed and allocated.
    """
    if before.layout is None or after.layout is None:
        missing = "at the first moment" if before.layout is None else "at the second moment"
        return Changes(before.statistics, after.statistics, problem=NO_LOOK.format(missing))
    old, new = _owners(before.layout), _owners(after.layout)
    stayed = {place for place, owner in new.items() if _is_same(owner, old.get(place))}
    return Changes(
        before=before.layout.statistics,
        after=after.layout.statistics,
        came=grouped((owner, place[1]) for place, owner in new.items() if place not in stayed),
        went=grouped((owner, place[1]) for place, owner in old.items() if place not in stayed),
        stayed_bytes=sum(size_bytes for _, size_bytes in stayed),
    )


def _owners(layout: DeviceLayout) -> dict[BlockKey, Owner]:
    return {(blocker.block.address, blocker.block.size_bytes): blocker.owner for blocker in layout.blockers}


def _is_same(owner: Owner, earlier: Owner | None) -> bool:
    """Whether a block can still hold the same tensor; `earlier` is None if there was no such block."""
    return earlier is not None and (
        owner.name == earlier.name or any(one.category in NAMELESS for one in (owner, earlier))
    )

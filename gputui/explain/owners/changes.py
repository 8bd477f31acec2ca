"""Between any two moments: which live blocks came and which went, grouped as people print them."""

from __future__ import annotations

from gputui.explain.owners.owners import grouped
from gputui.model.attached.analysis import Changes, Owner
from gputui.model.attached.moment import DeviceLayout, DeviceMoment
from gputui.model.attached.tensors import NAMELESS

BlockKey = tuple[int, int]
"""Address and size."""

NO_LOOK = "There was no look {}: only the counters can be compared."


def changes(before: DeviceMoment, after: DeviceMoment) -> Changes:
    """From `before` to `after`, two moments of one device.

    A block is the same if its address, size and owner are: a tensor that moved counts as freed and allocated. The owner
    need be known at one of the two moments only.
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
    """Whether a block can still hold the same tensor (`earlier` is None: there was no such block)."""
    return earlier is not None and (
        owner.name == earlier.name or any(one.category in NAMELESS for one in (owner, earlier))
    )

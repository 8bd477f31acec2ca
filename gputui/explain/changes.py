"""Between any two moments: which live blocks came and which went, grouped as people print them."""

from __future__ import annotations

from gputui.explain.owners import grouped
from gputui.model.change import Changes
from gputui.model.moment import DeviceLayout, DeviceMoment
from gputui.model.verdict import Owner

Key = tuple[str, int, int]

NO_LOOK = "The tensors were not looked at {}: only the counters can be compared."


def changes(before: DeviceMoment, after: DeviceMoment) -> Changes:
    """From `before` to `after`, two moments of one device.

    A block is the same where owner, address and size are: a tensor that moved went and came.
    """
    if before.layout is None or after.layout is None:
        missing = "at the first moment" if before.layout is None else "at the second moment"
        return Changes(before.statistics, after.statistics, problem=NO_LOOK.format(missing))
    old, new = _blocks(before.layout), _blocks(after.layout)
    return Changes(
        before=before.layout.statistics,
        after=after.layout.statistics,
        came=grouped((owner, key[2]) for key, owner in new.items() if key not in old),
        went=grouped((owner, key[2]) for key, owner in old.items() if key not in new),
        stayed_bytes=sum(key[2] for key in new if key in old),
    )


def _blocks(layout: DeviceLayout) -> dict[Key, Owner]:
    return {
        (pin.owner.name, pin.block.address, pin.block.size_bytes): pin.owner
        for segment in layout.release.segments
        for pin in segment.pins
    }

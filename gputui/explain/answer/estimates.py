"""Estimates what holders have by now from what grows, where the newest look has not seen all of it.

A look may have no time for all elements of a container, and on a busy machine looks are many seconds apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gputui.explain.advice.held.holders import Holder, HolderKey
from gputui.explain.memory.need import LEAST_SWING, Need, need_of
from gputui.model.attached.analysis import Finding
from gputui.model.attached.moment import DeviceMoment
from gputui.model.attached.tensors import NAMELESS, Category

LEAST_RISES = 2
"""A container is taken to go on growing if it got longer from one look to the next this often, and in half of them."""

LookHolders = tuple[float, tuple[Holder, ...]]
"""The time of a look (epoch seconds) and its holders."""


@dataclass(frozen=True, slots=True)
class Rise:
    """A container that gets longer from look to look, and how fast the memory that it keeps rises."""

    key: HolderKey
    name: str
    bytes_per_s: float


def rising(looks: Sequence[LookHolders]) -> Rise | None:
    """The container whose memory rises fastest up to the newest of these looks, which come oldest first; or None."""
    rises = [_rise(holder, looks) for holder in (looks[-1][1] if looks else ()) if holder.elements]
    return max(filter(None, rises), key=lambda rise: rise.bytes_per_s, default=None)


def _rise(holder: Holder, looks: Sequence[LookHolders]) -> Rise | None:
    """How fast a container of the newest look has grown since it last got shorter; None if it does not keep growing."""
    first, rises, compared = (looks[-1][0], holder), 0, 0
    for time, holders in reversed(looks[:-1]):
        before = next((other for other in holders if other.key == holder.key), None)
        if before is None or before.elements > first[1].elements:
            break
        rises += before.elements < first[1].elements
        first, compared = (time, before), compared + 1
    seconds, grown = looks[-1][0] - first[0], holder.bytes - first[1].bytes
    if rises < max(LEAST_RISES, compared / 2) or seconds <= 0 or grown <= 0:
        return None
    return Rise(holder.key, holder.name, grown / seconds)


def with_growth(holders: Sequence[Holder], rise: Rise | None, seconds: float) -> tuple[Holder, ...]:
    """The holders, with memory newer than the look moved to the growing container, at its rate for `seconds`."""
    if rise is None:
        return tuple(holders)
    newer = sum(holder.bytes for holder in holders if holder.key[0] == Category.NEWER.value)
    return _moved(holders, rise.key, min(newer, int(rise.bytes_per_s * seconds)), (Category.NEWER.value,))


def with_leak(holders: Sequence[Holder], leak: Finding | None) -> tuple[Holder, ...]:
    """The holders, with as much at a growing variable as the leak's estimate says that it keeps.

    Looks had no time for all that it keeps: the rest is taken from the blocks without a name.
    """
    grower = next((holder for holder in holders if leak and leak.owners[:1] == (holder.name,)), None)
    if leak is None or grower is None:
        return tuple(holders)
    return _moved(holders, grower.key, leak.bytes - grower.bytes, NAMELESS)


def need_beside(device: DeviceMoment, rise: Rise | None) -> Need | None:
    """What each step needs, without what a growing container got since memory was lowest: no step gives that back."""
    need = need_of(device)
    if need is None or rise is None or device.swing is None:
        return need
    lowest_bytes = need.lowest_bytes + int(rise.bytes_per_s * device.swing.seconds)
    is_of_step = need.highest_bytes - lowest_bytes >= LEAST_SWING * need.highest_bytes
    return replace(need, lowest_bytes=lowest_bytes) if is_of_step else None


def _moved(holders: Sequence[Holder], to: HolderKey, wanted_bytes: int, kinds: tuple[str, ...]) -> tuple[Holder, ...]:
    """The holders, the largest first, with up to `wanted_bytes` moved to holder `to` from holders of these kinds."""
    if wanted_bytes <= 0:
        return tuple(holders)
    wanting, kept = wanted_bytes, []
    for holder in holders:
        taken = min(wanting, holder.bytes) if holder.key[0] in kinds else 0
        wanting -= taken
        kept.append(replace(holder, bytes=holder.bytes - taken))
    kept = [_with(holder, wanted_bytes - wanting) if holder.key == to else holder for holder in kept]
    return tuple(sorted((holder for holder in kept if holder.bytes), key=lambda holder: -holder.bytes))


def _with(holder: Holder, more_bytes: int) -> Holder:
    keeps = f"by estimate; {holder.keeps}" if holder.keeps else ""
    return replace(holder, bytes=holder.bytes + more_bytes, keeps=keeps)

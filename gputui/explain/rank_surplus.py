"""What an odd rank holds that the other ranks do not: by variable, model part and module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

from gputui.explain.advice.holders import Holder
from gputui.explain.owners import bytes_by_module
from gputui.explain.ranks import ODD_BYTES, ODD_SHARE, Rank
from gputui.model.moment import DeviceLayout
from gputui.units import format_bytes

DIFFERENCES_SHOWN = 3
MODEL_PARTS = frozenset({"parameter", "gradient", "optimizer_state", "buffer"})

Holders = Mapping[tuple[int, int], Sequence[Holder]]
"""The holders on each rank that was looked at, by PID and device."""


def surplus(rank: Rank, ranks: Sequence[Rank], holders: Holders) -> list[str]:
    """Sentences on what a rank holds more than the median of the others, the largest difference first."""
    own = holders.get(_key(rank))
    others = [some for key, some in holders.items() if key != _key(rank)]
    if own is None or not others:
        return []
    sizes = [Counter({holder.key: holder.bytes for holder in some}) for some in others]
    differences = []
    for holder in own:
        usual = int(median(size[holder.key] for size in sizes))
        if holder.bytes - usual > max(ODD_BYTES, ODD_SHARE * usual):
            differences.append((holder.bytes - usual, usual, holder))
    differences.sort(key=lambda difference: -difference[0])
    return [_sentence(more, usual, holder, rank, ranks) for more, usual, holder in differences[:DIFFERENCES_SHOWN]]


def _key(rank: Rank) -> tuple[int, int]:
    return rank.moment.pid, rank.device.index


def _sentence(more: int, usual: int, holder: Holder, rank: Rank, ranks: Sequence[Rank]) -> str:
    others = f"the others have {format_bytes(usual)}" if usual else "the others have none"
    return f"{format_bytes(more)} more in {holder.label}: {others}{_modules(holder, rank, ranks)}."


def _modules(holder: Holder, rank: Rank, ranks: Sequence[Rank]) -> str:
    """In which module of a model the difference is largest, "" outside models."""
    if holder.key[0] not in MODEL_PARTS or rank.device.layout is None:
        return ""
    own = _by_module(rank.device.layout)
    others = [_by_module(other.device.layout) for other in ranks if other is not rank and other.device.layout]
    excess = {name: size - int(median(some[name] for some in others)) for name, size in own.items()} if others else {}
    name = max(excess, key=lambda module: excess[module], default="")
    return f", most of it in {name}" if name and excess[name] > 0 else ""


def _by_module(layout: DeviceLayout) -> Counter[str]:
    members = (
        (blocker.owner, blocker.block.size_bytes) for segment in layout.release.segments for blocker in segment.blockers
    )
    return Counter({module: sum(sizes.values()) for module, sizes in bytes_by_module(members).items()})

"""Compares the memory of a job's ranks: which rank has more or less than the others, and in what it has more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from gputui.explain.advice.held.holders import Holder
from gputui.explain.owners.owners import bytes_by_module
from gputui.model.attached.moment import DeviceLayout, DeviceMoment, TargetMoment
from gputui.model.attached.tensors import OF_MODELS
from gputui.model.reading import Absent, Reading
from gputui.units import format_bytes

FEWEST = 3
"""Fewer ranks are not compared: nothing tells which of two is the odd one."""

ODD_SHARE = 0.1
"""A figure is odd if it differs from the median by more than this share of the median and more than `ODD_BYTES`."""

ODD_BYTES = 64 * 1024**2

NOT_LOOKED = Absent("not looked at yet")

WORDS = {"reserved": "reserved", "allocated": "allocated", "peak": "allocated at its peak", "stuck": "stuck"}
"""The figures that are compared, as a sentence names them."""


@dataclass(frozen=True, slots=True)
class Oddity:
    """A figure of one rank that is odd, and the median of all ranks."""

    name: str
    bytes: int
    median_bytes: int


@dataclass(frozen=True, slots=True)
class Rank:
    """One process on one of its devices, and the figures in which it is odd."""

    moment: TargetMoment
    device: DeviceMoment
    oddities: tuple[Oddity, ...] = ()


def figures(device: DeviceMoment) -> dict[str, Reading[int]]:
    """The figures that are compared, in bytes."""
    counted = device.statistics
    return {
        "reserved": counted.reserved_bytes,
        "allocated": counted.allocated_bytes,
        "peak": counted.peak_allocated_bytes,
        "stuck": device.layout.release.composition.stuck_bytes if device.layout else NOT_LOOKED,
    }


def ranks_of(moments: Sequence[TargetMoment]) -> tuple[Rank, ...]:
    """Every process on every device that it uses, in the order of ranks, each compared with all others."""
    pairs = [(moment, device) for moment in moments for device in moment.used_devices]
    pairs.sort(key=lambda pair: (pair[0].greeting.rank is None, pair[0].greeting.rank or 0, pair[1].index))
    medians = _medians([figures(device) for _, device in pairs]) if len(pairs) >= FEWEST else {}
    return tuple(Rank(moment, device, _oddities(device, medians)) for moment, device in pairs)


def _medians(table: Sequence[dict[str, Reading[int]]]) -> dict[str, int]:
    known = {name: [value for row in table if not isinstance(value := row[name], Absent)] for name in table[0]}
    return {name: int(median(values)) for name, values in known.items() if len(values) >= FEWEST}


def _oddities(device: DeviceMoment, medians: dict[str, int]) -> tuple[Oddity, ...]:
    oddities = {
        name: Oddity(name, value, medians[name])
        for name, value in figures(device).items()
        if name in medians
        and not isinstance(value, Absent)
        and abs(value - medians[name]) > max(ODD_BYTES, ODD_SHARE * medians[name])
    }
    if "peak" not in oddities:  # ranks are read at different points of a step: other tensors live
        oddities.pop("allocated", None)
    return tuple(oddities.values())


def sentence(rank: Rank, count: int) -> str:
    """A sentence on how an odd rank, one of `count`, differs from the median, the largest difference first."""
    number = rank.moment.greeting.rank
    subject = f"{'' if number is None else f'Rank {number}, '}PID {rank.moment.place} on device {rank.device.number}"
    largest = sorted(rank.oddities, key=lambda oddity: -abs(oddity.bytes - oddity.median_bytes))
    first, *others = map(_difference, largest)
    rest = f" ({', '.join(others)})" if others else ""
    return f"{subject}: {first} than the median of {count}{rest}."


def _difference(oddity: Oddity) -> str:
    difference = oddity.bytes - oddity.median_bytes
    return f"{format_bytes(abs(difference))} {'more' if difference > 0 else 'less'} {WORDS[oddity.name]}"


DIFFERENCES_SHOWN = 3

Holders = Mapping[tuple[int, int], Sequence[Holder]]
"""The holders on each rank that was looked at, by PID and PyTorch's device index."""


def surplus(rank: Rank, ranks: Sequence[Rank], holders: Holders) -> list[str]:
    """Sentences on what a rank holds more of than the median of the others, the largest difference first."""
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
    """The end of a sentence: in which module the difference is largest; "" for holders that are no part of a model."""
    if holder.key[0] not in OF_MODELS or rank.device.layout is None:
        return ""
    own = _by_module(rank.device.layout)
    others = [_by_module(other.device.layout) for other in ranks if other is not rank and other.device.layout]
    excess = {name: size - int(median(some[name] for some in others)) for name, size in own.items()} if others else {}
    name = max(excess, key=lambda module: excess[module], default="")
    return f", most of it in {name}" if name and excess[name] > 0 else ""


def _by_module(layout: DeviceLayout) -> Counter[str]:
    members = ((blocker.owner, blocker.block.size_bytes) for blocker in layout.blockers)
    return Counter({module: sum(sizes.values()) for module, sizes in bytes_by_module(members).items()})

"""Kinds of tensors whose number rises from look to look, where no variable is known to keep them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gputui.explain.advice.leaks.thresholds import GROWTH_TENSORS
from gputui.model.attached.analysis import TensorGroup
from gputui.model.attached.moment import DeviceLayout
from gputui.model.attached.tensors import COMES_AND_GOES, Category

TensorKind = tuple[Category, str, tuple[int, ...], str]


@dataclass(frozen=True, slots=True)
class KindGrowth:
    """A kind of tensors with its newest group, and how many there were at the first and the last look.

    `bytes` is by how much they rose: those of one kind need not be of one size (`as_one`).
    """

    group: TensorGroup
    first: int
    last: int
    bytes: int


def rises(counts: Sequence[int]) -> bool:
    """Whether each third lies wholly above the one before, which tensors that come and go within a step do not."""
    size = len(counts) // 3
    first, middle, last = counts[:size], counts[size:-size], counts[-size:]
    return max(first) < min(middle) and max(middle) < min(last) and counts[-1] - counts[0] >= GROWTH_TENSORS


def as_one(layout: DeviceLayout) -> tuple[TensorGroup, ...]:
    """Everything that comes and goes, as one kind: too few owners are known to tell kinds apart."""
    groups = [group for group in layout.groups if group.category in COMES_AND_GOES]
    count, size_bytes = sum(group.count for group in groups), sum(group.bytes for group in groups)
    return (TensorGroup(Category.UNATTRIBUTED, "", (), "", count, size_bytes, ()),) if groups else ()


def growths(looks: Sequence[Sequence[TensorGroup]]) -> list[KindGrowth]:
    """The kinds that rise from look to look, by bytes."""
    found = [{_kind_of(group): (group.count, group.bytes) for group in groups} for groups in looks]
    rising = []
    for group in looks[-1]:
        series = [by_kind.get(_kind_of(group), (0, 0)) for by_kind in found]
        (first, first_bytes), (last, last_bytes) = series[0], series[-1]
        if group.category in COMES_AND_GOES and last_bytes > first_bytes and rises([count for count, _ in series]):
            rising.append(KindGrowth(group, first, last, last_bytes - first_bytes))
    return sorted(rising, key=lambda growth: -growth.bytes)


def _kind_of(group: TensorGroup) -> TensorKind:
    return group.category, group.type, group.shape, group.dtype


def addresses(layout: DeviceLayout, fastest: KindGrowth) -> tuple[int, ...]:
    """The blocks of this kind."""
    kind = _kind_of(fastest.group)
    return tuple(
        address
        for address, owner in layout.owners.items()
        if (owner.category, owner.type, owner.shape, owner.dtype) == kind
    )

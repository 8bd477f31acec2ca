"""Kinds of tensors whose number rises from look to look, for tensors that no variable is known to keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gputui.explain.advice.leaks.thresholds import GROWTH_TENSORS
from gputui.model.attached.analysis import TensorGroup
from gputui.model.attached.moment import DeviceLayout
from gputui.model.attached.tensors import COMES_AND_GOES, Category

TensorKind = tuple[Category, str, tuple[int, ...], str, str]
"""Category, type, shape, element type; of unattributed blocks the line that allocated them, "" if it is not known."""


@dataclass(frozen=True, slots=True)
class KindGrowth:
    """A kind of tensors with its newest group, and how many of them the first and the last look found.

    `bytes` is by how much their bytes rose: tensors of one kind need not have one size (`as_one`).
    """

    group: TensorGroup
    first: int
    last: int
    bytes: int


def rises(counts: Sequence[int]) -> bool:
    """Whether each third of the counts lies wholly above the third before, unlike those of tensors within a step."""
    size = len(counts) // 3
    first, middle, last = counts[:size], counts[size:-size], counts[-size:]
    return max(first) < min(middle) and max(middle) < min(last) and counts[-1] - counts[0] >= GROWTH_TENSORS


def as_one(layout: DeviceLayout) -> tuple[TensorGroup, ...]:
    """All tensors that come and go, as one kind, for looks that know too few owners to tell kinds apart."""
    groups = [group for group in layout.groups if group.category in COMES_AND_GOES]
    count, size_bytes = sum(group.count for group in groups), sum(group.bytes for group in groups)
    return (TensorGroup(Category.UNATTRIBUTED, "", (), "", count, size_bytes, ()),) if groups else ()


def growths(looks: Sequence[Sequence[TensorGroup]]) -> list[KindGrowth]:
    """The kinds whose number rises from look to look, those that rose by most bytes first."""
    found = [{_kind_of(group): (group.count, group.bytes) for group in groups} for groups in looks]
    rising = []
    for group in looks[-1]:
        series = [by_kind.get(_kind_of(group), (0, 0)) for by_kind in found]
        (first, first_bytes), (last, last_bytes) = series[0], series[-1]
        if group.category in COMES_AND_GOES and last_bytes > first_bytes and rises([count for count, _ in series]):
            rising.append(KindGrowth(group, first, last, last_bytes - first_bytes))
    return sorted(rising, key=lambda growth: -growth.bytes)


def _kind_of(group: TensorGroup) -> TensorKind:
    line = group.names[0] if group.category is Category.UNATTRIBUTED and group.names else ""
    return group.category, group.type, group.shape, group.dtype, line


def addresses(layout: DeviceLayout, fastest: KindGrowth) -> tuple[int, ...]:
    """The addresses of the blocks of this kind in the newest look."""
    *kind, line = _kind_of(fastest.group)
    return tuple(
        address
        for address, owner in layout.owners.items()
        if [owner.category, owner.type, owner.shape, owner.dtype] == kind and line in ("", owner.name)
    )

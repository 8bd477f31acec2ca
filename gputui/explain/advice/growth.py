"""A leak: more tensors of a kind at every look, and the variable that keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gputui.explain.advice.names import container, counted, family, listed
from gputui.explain.advice.situation import Seen, Situation, clock
from gputui.explain.advice.thresholds import GROWTH_BYTES, GROWTH_TENSORS, LOOKS
from gputui.model.analysis import TensorGroup
from gputui.model.finding import Finding, Weight
from gputui.model.moment import DeviceLayout
from gputui.model.tensors import Category
from gputui.units import format_bytes

COMES_AND_GOES = frozenset({Category.ACTIVATION, Category.KV_CACHE, Category.OTHER, Category.UNATTRIBUTED})
"""Only these can leak: the others grow while a model is built and in its first step, and then stay."""

NAMELESS = "blocks other than parameters, gradients, optimizer states and buffers"

KINDS_SHOWN = 3

TensorKind = tuple[Category, str, tuple[int, ...], str]


@dataclass(frozen=True, slots=True)
class _Growth:
    """A kind of tensors with its newest group, and how many there were at the first and the last look."""

    group: TensorGroup
    first: int
    last: int

    @property
    def bytes(self) -> int:
        return (self.last - self.first) * self.group.bytes // self.group.count


def leak(situation: Situation) -> Finding | None:
    """Kinds of tensors whose number grows from look to look."""
    is_bare = len(situation.looks) < LOOKS
    looks = situation.bare_looks if is_bare else situation.looks
    if len(looks) < LOOKS or looks[-1].layout.statistics.generation == looks[0].layout.statistics.generation:
        return None
    growths = _growths([_as_one(look.layout) if is_bare else look.layout.groups for look in looks])
    grown_bytes = sum(growth.bytes for growth in growths)
    if grown_bytes < GROWTH_BYTES:
        return None
    keepers = _keepers(looks)
    is_graph = any(growth.group.category is Category.ACTIVATION for growth in growths)
    return Finding(
        kind="leak",
        weight=Weight.PROBLEM,
        title=_title(keepers, grown_bytes),
        evidence=(
            _span(looks),
            *(_keeper(name, counts) for name, counts in keepers),
            *map(_kind, growths[:KINDS_SHOWN]),
        ),
        remedy=_remedy(keepers, is_graph=is_graph),
        bytes=grown_bytes,
        screen="tensors",
        addresses=_addresses(looks[-1].layout, growths),
        owners=tuple(name for name, _ in keepers) or growths[0].group.names[-1:],
    )


def rises(counts: Sequence[int]) -> bool:
    """Whether each third lies wholly above the one before, which tensors that come and go within a step do not."""
    size = len(counts) // 3
    first, middle, last = counts[:size], counts[size:-size], counts[-size:]
    return max(first) < min(middle) and max(middle) < min(last) and counts[-1] - counts[0] >= GROWTH_TENSORS


def _as_one(layout: DeviceLayout) -> tuple[TensorGroup, ...]:
    """Everything that comes and goes, as one kind: too few owners are known to tell kinds apart."""
    groups = [group for group in layout.groups if group.category in COMES_AND_GOES]
    count, size_bytes = sum(group.count for group in groups), sum(group.bytes for group in groups)
    return (TensorGroup(Category.UNATTRIBUTED, "", (), "", count, size_bytes, ()),) if groups else ()


def _growths(looks: Sequence[Sequence[TensorGroup]]) -> list[_Growth]:
    """The kinds that rise from look to look, by bytes."""
    counts = [{_kind_of(group): group.count for group in groups} for groups in looks]
    growths = []
    for group in looks[-1]:
        series = [by_kind.get(_kind_of(group), 0) for by_kind in counts]
        if group.category in COMES_AND_GOES and rises(series):
            growths.append(_Growth(group, series[0], series[-1]))
    return sorted(growths, key=lambda growth: -growth.bytes)


def _keepers(looks: Sequence[Seen]) -> list[tuple[str, list[int]]]:
    """Variables that hold more and more tensors on the device, the fastest growing first."""
    per_look = [_elements(look.layout) for look in looks]
    series = {name: [elements[name] for elements in per_look] for name in per_look[-1]}
    rising = [(name, counts) for name, counts in series.items() if rises(counts)]
    return sorted(rising, key=lambda entry: entry[1][0] - entry[1][-1])


def _elements(layout: DeviceLayout) -> Counter[str]:
    names = (name for group in layout.groups if group.category in COMES_AND_GOES for name in group.names)
    return Counter(filter(None, map(container, names)))


def _kind_of(group: TensorGroup) -> TensorKind:
    return group.category, group.type, group.shape, group.dtype


def _addresses(layout: DeviceLayout, growths: Sequence[_Growth]) -> tuple[int, ...]:
    """The blocks of the fastest growing kind."""
    fastest = _kind_of(growths[0].group)
    return tuple(
        address
        for address, owner in layout.owners.items()
        if (owner.category, owner.type, owner.shape, owner.dtype) == fastest
    )


def _title(keepers: Sequence[tuple[str, list[int]]], grown_bytes: int) -> str:
    grown = f"{format_bytes(grown_bytes)} more since the first look"
    if keepers:
        return f"A leak: {keepers[0][0]} keeps more tensors at every look, {grown}."
    return f"A leak: the program keeps more and more tensors, {grown}."


def _span(looks: Sequence[Seen]) -> str:
    first, last = looks[0], looks[-1]
    before, after = (format_bytes(look.layout.statistics.allocated_bytes) for look in (first, last))
    return (
        f"From {clock(first.time)} to {clock(last.time)} ({len(looks)} looks) allocated memory grew from {before} to"
        f" {after}."
    )


def _keeper(name: str, counts: Sequence[int]) -> str:
    return f"{name} grew from {counts[0]:,} to {counted(counts[-1], 'tensor')}."


def _kind(growth: _Growth) -> str:
    group = growth.group
    names = f", such as {listed(family(name) for name in group.names[-1:])}" if group.names else ""
    category = group.category.words
    what = f"{group.shape or '()'} {group.dtype} {category}" if group.dtype else NAMELESS
    return f"{growth.first:,} became {growth.last:,} x {what} (+{format_bytes(growth.bytes)}){names}."


def _remedy(keepers: Sequence[tuple[str, list[int]]], *, is_graph: bool) -> str:
    if not keepers:
        return "See them on the Tensors screen; a scan of all Python objects may find the variable that keeps them."
    name = keepers[0][0]
    if is_graph:
        return (
            f"Append loss.item() or loss.detach() to {name}: a tensor with its graph keeps all that was saved for it."
        )
    return f"Move the tensors in {name} to the host (.cpu()), or drop the old ones."

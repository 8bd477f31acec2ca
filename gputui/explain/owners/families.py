"""Counts tensors of one category together if their names differ only in numbers or keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gputui.explain.owners.names import counted, name_of, patterns
from gputui.model.attached.analysis import Owner
from gputui.model.attached.owners import OwnerKind, OwnerName
from gputui.model.attached.tensors import NAMELESS, Category

Member = tuple[Owner, int]
"""The owner of a block or storage, and its bytes."""


def families(members: Iterable[Member]) -> list[tuple[str, list[Member]]]:
    """The families with their names, the largest first; a family of a single member has that member's name."""
    by_category: dict[Category, list[Member]] = {}
    for owner, size_bytes in members:
        by_category.setdefault(owner.category, []).append((owner, size_bytes))
    alike: dict[tuple[Category, str], list[Member]] = {}
    for category, some in by_category.items():
        names = _families(category, {_name(owner) for owner, _ in some})
        for owner, size_bytes in some:
            alike.setdefault((category, names[_name(owner)]), []).append((owner, size_bytes))
    by_size = sorted(alike.items(), key=lambda entry: -bytes_of(entry[1]))
    return [(name if len(some) > 1 else _name(some[0][0]), some) for (_, name), some in by_size]


def bytes_of(members: Iterable[Member]) -> int:
    """The bytes of all members."""
    return sum(size_bytes for _, size_bytes in members)


def description(owners: Sequence[Owner]) -> str:
    """How many tensors of which kind: "12 x (1024, 4096) float32 parameter"; all have the category of the first."""
    category = owners[0].category
    noun = "tensor" if category is Category.OTHER else category.words
    kinds = {(owner.shape, owner.dtype) for owner in owners}
    shape, dtype = next(iter(kinds))
    if not dtype:
        return counted(len(owners), "block")
    if len(kinds) > 1:
        return f"{len(owners):,} x {noun}, {len(kinds):,} shapes"
    return f"{len(owners):,} x {shape} {dtype} {noun}"


def _families(category: Category, names: set[str]) -> dict[str, str]:
    """The family of each name; the name itself for unattributed blocks, which are named after a line of code."""
    if category is Category.UNATTRIBUTED:
        return {name: name for name in names}
    return patterns(names, folds_attributes=category is Category.OTHER)


def _name(owner: Owner) -> str:
    """The owner's name, after its module where the name does not begin with that."""
    if owner.category in NAMELESS:
        return owner.name or name_of(owner)
    is_within = not owner.module or owner.name.startswith(owner.module)
    if is_within or owner.name.kind is not OwnerKind.VARIABLE:
        return owner.name if is_within else f"{owner.module}: {owner.name}"
    start, *facts = owner.name.facts
    return OwnerName(f"{owner.module}: {start}", *facts)

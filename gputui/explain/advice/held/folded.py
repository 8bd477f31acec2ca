"""Joins holders whose names differ only in numbers or keys: what each layer of a model keeps, or each fold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from gputui.explain.advice.held.holders import Holder
from gputui.explain.owners.names import counted, patterns
from gputui.model.attached.tensors import OF_MODELS
from gputui.units import format_bytes

_FOLDED = frozenset({"variable", *(part.value for part in OF_MODELS)})


def folded(holders: Sequence[Holder]) -> tuple[Holder, ...]:
    """These holders, the largest first; holders of one kind and one pattern of names become one with that pattern."""
    names = patterns({holder.name for holder in holders if holder.key[0] in _FOLDED})
    alike: dict[tuple[str, str], list[Holder]] = defaultdict(list)
    for holder in holders:
        alike[(holder.key[0], names[holder.name]) if holder.key[0] in _FOLDED else holder.key].append(holder)
    together = [_one(name, some) for (_, name), some in alike.items()]
    return tuple(sorted(together, key=lambda holder: (-holder.bytes, holder.name)))


def _one(name: str, holders: Sequence[Holder]) -> Holder:
    first = holders[0]
    if len(holders) == 1:
        return first
    elements = sum(holder.elements for holder in holders)
    keeps = f"{counted(len(holders), 'place')}, {counted(elements, 'element')}" if elements else ""
    places = dict.fromkeys(holder.place for holder in holders)
    return replace(
        first,
        key=(first.key[0], name),
        name=name,
        bytes=sum(holder.bytes for holder in holders),
        graph="",
        keeps=keeps or f"{counted(len(holders), 'place')} of up to {format_bytes(first.bytes)}",
        place=first.place if len(places) == 1 else "",
        addresses=tuple(chain.from_iterable(holder.addresses for holder in holders)),
        elements=elements,
        read_elements=sum(holder.read_elements for holder in holders),
    )

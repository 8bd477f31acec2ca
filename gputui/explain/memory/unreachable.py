"""Finds the objects of a program that only reference cycles keep, in the way of Python's garbage collector.

Of each object's reference count, the references from other objects are subtracted. An object with references left over
is held from outside, and so is all that it leads to. The program runs on meanwhile, so the probe proves the result.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from itertools import compress, count, repeat
from operator import not_
from typing import NamedTuple

from gputui.model.attached.target import ReferencesPart

OBJECTS_AT_MOST = 2_000_000
PIECE = 50_000
"""How many objects or references are one piece of work, of some 20 ms."""

Cycles = dict[int, int]
"""The number of each object's cycle, by address; -1 - number for an object that cycle `number` only leads to."""


class Candidates(NamedTuple):
    """What the probe is to prove: objects that cycles alone may keep, and the nodes of autograd graphs beside them."""

    cycles: Cycles
    nodes: frozenset[int]
    """The addresses of the nodes of autograd graphs that are not in `cycles`."""
    types: dict[int, int]
    """The address of the type of each object in `cycles` and `nodes`, by the object's address."""


class References:
    """The references between a program's objects, as the probe sends them in parts; for one search."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        """The number of each object, by address, in the order in which objects came."""
        self._counts, self._referents, self._starts = array("q"), array("Q"), array("Q", [0])
        """By number: the reference count, and where the object's referents begin in `_referents`."""
        self._types = array("Q")
        self._tensors: set[int] = set()
        self._nodes: set[int] = set()

    @property
    def is_too_much(self) -> bool:
        """Whether there are more than `OBJECTS_AT_MOST` objects."""
        return len(self._counts) > OBJECTS_AT_MOST

    def add(self, part: ReferencesPart) -> None:
        """Take one part; objects that earlier parts had are skipped."""
        ends = list(_running(part.lengths))
        for number, address in enumerate(part.addresses):
            if address in self._numbers:
                continue
            self._numbers[address] = len(self._counts)
            self._types.append(part.types[number])
            self._counts.append(part.counts[number])
            self._referents.extend(part.referents[ends[number] - part.lengths[number] : ends[number]])
            self._starts.append(len(self._referents))
        self._tensors.update(part.addresses[number] for number in part.tensors)
        self._nodes.update(part.addresses[number] for number in part.nodes)

    def candidates(self) -> Iterator[Candidates | None]:
        """Find cycles that lead to tensors and that nothing outside holds; None after each piece, then the result."""
        for _ in self._subtract():
            yield None
        is_held = bytearray(map((0).__lt__, self._counts))
        is_held[-1] = True
        held = list(compress(range(len(is_held) - 1), is_held))
        while held:
            found: list[int] = []
            for first in range(0, len(held), PIECE):
                for number in held[first : first + PIECE]:
                    for other in self._referents_of(number):
                        if not is_held[other]:
                            is_held[other] = True
                            found.append(other)
                yield None
            held = found
        left = dict(compress(zip(count(), self._numbers), map(not_, is_held)))
        referents = {
            at: [left[other] for other in self._referents_of(number) if other in left] for number, at in left.items()
        }
        leading = _leading_to(self._tensors, referents)
        cycles = _numbered(
            {at: [to for to in held if to in leading] for at, held in referents.items() if at in leading}
        )
        nodes = frozenset(self._nodes - cycles.keys())
        yield Candidates(cycles, nodes, {at: self._types[self._numbers[at]] for at in (*cycles, *nodes)})

    def _subtract(self) -> Iterator[None]:
        """Subtract all references from the counts; referents become numbers, one more than all for unknown objects."""
        elsewhere = len(self._counts)
        self._counts.append(0)
        for first in range(0, len(self._referents), PIECE):
            numbers = list(map(self._numbers.get, self._referents[first : first + PIECE], repeat(elsewhere)))
            self._referents[first : first + len(numbers)] = array("Q", numbers)
            for number in numbers:
                self._counts[number] -= 1
            yield

    def _referents_of(self, number: int) -> array[int]:
        return self._referents[self._starts[number] : self._starts[number + 1]]


def _running(lengths: array[int]) -> Iterator[int]:
    total = 0
    for length in lengths:
        total += length
        yield total


def _leading_to(ends: set[int], referents: dict[int, list[int]]) -> set[int]:
    """The objects in `referents` that are one of `ends` or lead to one."""
    holders: dict[int, list[int]] = {}
    for at, held in referents.items():
        for other in held:
            holders.setdefault(other, []).append(at)
    found: set[int] = set()
    pending = [end for end in ends if end in referents or end in holders]
    while pending:
        at = pending.pop()
        if at not in found:
            found.add(at)
            pending += holders.get(at, ())
    return found & referents.keys()


def _numbered(referents: dict[int, list[int]]) -> Cycles:
    """The cycle of each object that is in a cycle or that a cycle leads to; others are left out."""
    cycles: Cycles = {}
    number = 0
    for members in _Components(referents).found():
        if len(members) > 1 or any(member in referents[member] for member in members):
            cycles.update(dict.fromkeys(members, number))
            number += 1
    pending = deque(cycles)
    while pending:
        at = pending.popleft()
        for held in referents[at]:
            if held not in cycles:
                cycles[held] = min(cycles[at], -1 - cycles[at])
                pending.append(held)
    return cycles


class _Components:
    """Tarjan's algorithm without recursion: finds groups of objects that all lead to each other, by address."""

    def __init__(self, referents: dict[int, list[int]]) -> None:
        self._referents = referents
        self._order: dict[int, int] = {}
        self._lowest: dict[int, int] = {}
        self._starts: dict[int, int] = {}
        self._done: set[int] = set()
        self._path: list[int] = []
        self._work: list[tuple[int, Iterator[int]]] = []

    def found(self) -> Iterator[list[int]]:
        for first in self._referents:
            if first not in self._order:
                self._enter(first)
            while self._work:
                ident, left = self._work[-1]
                held = next(left, None)
                if held is None:
                    yield self._leave()
                elif held not in self._order:
                    self._enter(held)
                elif held not in self._done:
                    self._lowest[ident] = min(self._lowest[ident], self._order[held])

    def _enter(self, ident: int) -> None:
        self._order[ident] = self._lowest[ident] = len(self._order)
        self._starts[ident] = len(self._path)
        self._path.append(ident)
        self._work.append((ident, iter(self._referents[ident])))

    def _leave(self) -> list[int]:
        ident, _ = self._work.pop()
        above = self._work[-1][0] if self._work else ident
        self._lowest[above] = min(self._lowest[above], self._lowest[ident])
        members = self._path[self._starts[ident] :] if self._lowest[ident] == self._order[ident] else []
        del self._path[len(self._path) - len(members) :]
        self._done.update(members)
        return members

"""Operations with some taken away, moved, added or resized."""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import replace

from gputui.explain.whatif.operations import Kind, Operations

NOTHING_BYTES = 1
"""The size of what is taken away: the smallest block, so that its frees can stay."""


class Edit:
    """Collects changes of operations; places are those of the original."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self._sizes = operations.sizes_bytes[:]
        self._streams, self._addresses = operations.streams[:], operations.addresses[:]
        self._before: defaultdict[int, list[tuple[Kind, int]]] = defaultdict(list)
        self._dropped: set[int] = set()
        self._renumbered: dict[int, int] = {}
        self.origins = list(range(len(operations.sizes_bytes)))
        """For each allocation the one of the original that it is, or that it is made again of."""

    def resize(self, number: int, size_bytes: int) -> None:
        """Give an allocation another size."""
        self._sizes[number] = max(size_bytes, NOTHING_BYTES)

    def size(self, number: int) -> int:
        """The size of an allocation so far."""
        return self._sizes[number]

    def free_at(self, place: int, number: int) -> None:
        """Free an allocation before the operation at `place`."""
        self._before[place].append((Kind.FREE, number))

    def drop(self, place: int) -> None:
        """Leave an operation out."""
        self._dropped.add(place)

    def again_at(self, place: int, number: int) -> int:
        """Make an allocation once more before the operation at `place`; returns the number of the new one."""
        self._sizes.append(self._sizes[number])
        self._streams.append(self.operations.streams[number])
        self._addresses.append(0)
        self.origins.append(number)
        new = len(self._sizes) - 1
        self._before[place].append((Kind.MALLOC, new))
        return new

    def renumber(self, place: int, number: int) -> None:
        """Have the operation at `place` be about another allocation."""
        self._renumbered[place] = number

    def result(self) -> tuple[Operations, list[int]]:
        """The operations with all changes, and where each place of the original is in them."""
        kinds, numbers, events = bytearray(), array("q"), array("q")
        original, moved = self.operations, []
        count = len(original.kinds)
        for place in range(count + 1):
            event = original.events[min(place, count - 1)] if count else 0
            for kind, number in self._before.get(place, ()):
                kinds.append(kind)
                numbers.append(number)
                events.append(event)
            moved.append(len(kinds))
            if place < count and place not in self._dropped:
                kinds.append(original.kinds[place])
                numbers.append(self._renumbered.get(place, original.numbers[place]))
                events.append(event)
        edited = replace(
            original,
            kinds=bytes(kinds),
            numbers=numbers,
            events=events,
            sizes_bytes=self._sizes,
            streams=self._streams,
            addresses=self._addresses,
        )
        return edited, moved

"""The driver's addresses: a new segment gets the lowest gap that is large enough."""

from __future__ import annotations

from bisect import bisect_left, insort

GRAIN_BYTES = 2 << 20
FIRST_ADDRESS = 1 << 40


class Addresses:
    """Ranges in use, by address. PyTorch prefers the lower of two equal free blocks, so where they lie matters."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []
        self._first = FIRST_ADDRESS

    def take(self, size: int) -> int:
        """The first address of a new range."""
        size = -(-size // GRAIN_BYTES) * GRAIN_BYTES
        address = self._first
        for start, end in self._ranges:
            if start - address >= size:
                break
            address = max(address, end)
        insort(self._ranges, (address, address + size))
        return address

    def occupy(self, address: int, size: int) -> None:
        """Mark a range as in use; new ones are looked for from the lowest of these on."""
        self._first = address if not self._ranges else min(address, self._first)
        insort(self._ranges, (address, address + size))

    def release(self, address: int) -> None:
        """Give a range back."""
        place = bisect_left(self._ranges, (address,))
        if place < len(self._ranges) and self._ranges[place][0] == address:
            del self._ranges[place]

"""What happened to one device of a process between two moments."""

from __future__ import annotations

from dataclasses import dataclass

from gputui.model.allocator import AllocatorStatistics
from gputui.model.verdict import TensorGroup


@dataclass(frozen=True, slots=True)
class Changes:
    """`came` and `went` are live blocks, grouped, the largest group first; both are () where `problem` says why.

    `before` and `after` are the counters of the two looks: what came less what went is the difference of their
    allocated bytes. `stayed_bytes` was there at both moments.
    """

    before: AllocatorStatistics
    after: AllocatorStatistics
    came: tuple[TensorGroup, ...] = ()
    went: tuple[TensorGroup, ...] = ()
    stayed_bytes: int = 0
    problem: str = ""

    @property
    def came_bytes(self) -> int:
        """All that came."""
        return sum(group.bytes for group in self.came)

    @property
    def went_bytes(self) -> int:
        """All that went."""
        return sum(group.bytes for group in self.went)

"""Decides whose turn it is, where the time is too short to ask all probes each time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import TypeVar

T = TypeVar("T")
A = TypeVar("A")


class Turns:
    """Processes that have waited longest come first; one that was asked and did not answer waits a round longer."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._begun: dict[int, int] = {}
        self._answered: dict[int, int] = {}

    def in_order(self, items: Iterable[T], pid_of: Callable[[T], int]) -> list[T]:
        """Items of processes in the order in which to ask them; processes that are not among them are forgotten."""
        queue = list(items)
        pids = set(map(pid_of, queue))
        queue.sort(key=lambda item: self._key(pid_of(item), len(pids)))
        for numbers in (self._begun, self._answered):
            for pid in numbers.keys() - pids:
                del numbers[pid]
        return queue

    def ask(self, pid: int, work: Callable[[], A]) -> A:
        """Do the work of asking a process."""
        number = self._begun[pid] = next(self._numbers)
        answer = work()
        self._answered[pid] = number
        return answer

    def _key(self, pid: int, round_length: int) -> int:
        begun = self._begun.get(pid, 0)
        return begun if begun == self._answered.get(pid, 0) else begun + round_length

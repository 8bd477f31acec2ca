"""Remembers where a look had no more time, so that the next look goes on there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from gputui.probe.pace.meter import Meter

Item = TypeVar("Item")


class Turns:
    """Belongs to one process; each kind of work has a name of its own."""

    def __init__(self) -> None:
        self._starts: dict[str, int] = {}

    def in_turn(self, what: str, items: list[Item], meter: Meter, at_once: int = 1) -> Iterator[list[Item]]:
        """The items, `at_once` at a time, from where the last look had no more time, until this look has none.

        `what` names the kind of work. If the first items take all of the time, the next look begins behind them.
        """
        start = self._starts.pop(what, 0) % max(1, len(items))
        firsts = [*range(start, len(items), at_once), *range(0, start, at_once)]
        for number, first in enumerate(firsts):
            if not meter.has_time():
                self._starts[what] = first
                return
            yield items[first : min(first + at_once, len(items) if first >= start else start)]
            if meter.is_over:
                self._starts[what] = firsts[max(number, 1) % len(firsts)]
                return

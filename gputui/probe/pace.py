"""How far apart automatic looks are."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

SHARE_OF_TIME = 0.009
"""How much of the program's time automatic looks may take: with the messages and the rest of the probe, 1 %."""
MIN_INTERVAL_S = 1.0
"""The shortest time between two automatic looks."""


class Pace:
    """Says when the next automatic look may be taken."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._next_at = clock()

    @property
    def is_due(self) -> bool:
        """Whether an automatic look may be taken now."""
        return self._clock() >= self._next_at

    def account(self, cost_s: float) -> None:
        """Put off the next look, so that what this one cost stays within `SHARE_OF_TIME`."""
        self._next_at = self._clock() + max(MIN_INTERVAL_S, cost_s / SHARE_OF_TIME)

"""Sets how far apart automatic looks are."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from gputui.probe.guards.originals import perf_counter

SHARE_OF_TIME = 0.009
"""The share of the program's time for automatic looks: with messages and the rest of the probe, it is 1 %."""
MIN_INTERVAL_S = 1.0
"""The shortest time between two automatic looks, except while looks are eager."""
EAGER_SHARE, EAGER_S, EAGER_WITHIN_S = 0.5, 1.5, 60.0
"""In the first minute after somebody has attached, while more looks will name more memory, looks are eager: the next
waits for twice the time that the last one cost. This ends once they have cost EAGER_S seconds."""
AVERAGED = 8
"""The wait after a look is computed from the mean cost of so many last looks."""
TREND_LOOKS = 8
"""After the eager looks, so many come at the shortest interval, within the same limits: a viewer sees what grows."""


class Pace:
    """Says when the next automatic look may be taken; there is a new `Pace` after the last viewer has left."""

    def __init__(
        self, clock: Callable[[], float] = perf_counter, wall_clock: Callable[[], float] | None = None
    ) -> None:
        """`wall_clock` is for a rank of a job: all ranks look at the same moments, as each waits for all others."""
        self._clock, self._wall_clock = clock, wall_clock
        self._next_at = clock()
        self._eager_left_s, self._eager_until = EAGER_S, clock() + EAGER_WITHIN_S
        self._looks = 0
        """How many looks were taken since they are not eager any more."""
        self._costs_s: deque[float] = deque(maxlen=AVERAGED)
        self.is_eager = True
        """Whether looks are eager: somebody has just attached and waits for names."""

    @property
    def is_due(self) -> bool:
        """Whether an automatic look may be taken now."""
        return self._clock() >= self._next_at

    def account(self, cost_s: float, *, goes_on: bool = False) -> None:
        """Put off the next look, so that the cost of the last ones stays within `SHARE_OF_TIME`.

        On a busy machine, some looks wait for a processor in the middle: their cost is spread over the next ones.
        `goes_on`: more looks will name more memory.
        """
        was_eager = self.is_eager and goes_on
        self._looks += not was_eager
        self._eager_left_s -= cost_s if self.is_eager or self._looks < TREND_LOOKS else 0.0
        has_time = self._eager_left_s > 0 and self._clock() < self._eager_until
        self.is_eager = goes_on and has_time
        is_quick = self.is_eager or was_eager or (has_time and self._looks < TREND_LOOKS)
        self._costs_s.append(cost_s)
        wait_s = cost_s / EAGER_SHARE if is_quick else sum(self._costs_s) / len(self._costs_s) / SHARE_OF_TIME
        if not was_eager:
            wait_s = max(MIN_INTERVAL_S, wait_s)
            wait_s = _until_shared(self._wall_clock(), wait_s) if self._wall_clock else wait_s
        self._next_at = self._clock() + wait_s


def _until_shared(now_s: float, interval_s: float) -> float:
    """The time until the next multiple of the interval, which is rounded up to a power of two of seconds.

    So ranks with different intervals share every second, fourth or eighth moment. One nearer than half is left out.
    """
    shared_s = 1.0
    while shared_s < interval_s:
        shared_s *= 2
    left_s = shared_s - now_s % shared_s
    return left_s if left_s >= interval_s / 2 else left_s + shared_s

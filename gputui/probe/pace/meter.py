"""Tells when the time of a stop is used up: by a clock, or by steps of work that a test can count."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gputui.probe.guards.originals import thread_time

STEPS_BETWEEN_CHECKS = 32
"""The clock is read once in so many steps: reading it costs as much as a small step."""
FOREVER_S = 3600.0
STEP_S = 3e-6
"""How long a step takes, about: only for work that cannot be interrupted once it has begun."""


class Meter:
    """Counts the steps of one stop, in processor time: on a busy machine a look is as thorough as on any other.

    Work asks `spend` before each step and stops when it says no.

    A step is the visit of one object, module, tensor or graph node: at most a few microseconds.
    """

    def __init__(
        self,
        limit_s: float,
        *,
        max_steps: int = sys.maxsize,
        clock: Callable[[], float] = thread_time,
    ) -> None:
        self._clock = clock
        self._ends_at = clock() + limit_s
        self._max_steps = max_steps
        self._parts: list[Meter] = []
        self._granted = 0
        """How many steps may be taken until the clock is read again, and were taken before."""
        self._left = 0
        """How many of these are left; this many make `spend` cheap."""
        self.is_over = False
        """Whether there is no time left."""
        self._has_left_out = False

    @property
    def steps(self) -> int:
        """How many steps were taken, those of its parts included."""
        return self._granted - self._left + sum(part.steps for part in self._parts)

    @property
    def is_complete(self) -> bool:
        """Whether nothing was left out."""
        return not self._has_left_out and all(part.is_complete for part in self._parts)

    def part(self, share: float) -> Meter:
        """A meter for one piece of the work, with this share of the time and the steps that are left."""
        left_s = max(0.0, self._ends_at - self._clock())
        left_steps = max(0, self._max_steps - self.steps)
        part = Meter(share * left_s, max_steps=int(share * left_steps), clock=self._clock)
        self._parts.append(part)
        return part

    @contextmanager
    def within(self, share: float) -> Iterator[None]:
        """Grant the work inside only this share of the time and the steps that are left: others need the rest."""
        ends_at, max_steps, was_over, now = self._ends_at, self._max_steps, self.is_over, self._clock()
        self._ends_at = now + share * max(0.0, ends_at - now)
        self._max_steps = self.steps + int(share * max(0, max_steps - self.steps))
        try:
            yield
        finally:
            self._ends_at, self._max_steps, self.is_over = ends_at, max_steps, was_over

    def spend(self, steps: int = 1) -> bool:
        """Account for the next steps; False if they must be left out."""
        if steps <= self._left:
            self._left -= steps
            return True
        return self._grant(steps)

    def has_time(self) -> bool:
        """Whether the next piece of work may begin, by the clock: for work of which a step may take long."""
        if not self.is_over and self._clock() > self._ends_at:
            self.end()
        return not self.is_over

    def end(self) -> None:
        """Grant nothing more, as something must be left out."""
        self.is_over = True
        self._granted, self._left = self._granted - self._left, 0
        self.leave_out()

    def affordable_steps(self) -> int:
        """How many steps there is time for, about."""
        left_s = max(0.0, min(self._ends_at - self._clock(), FOREVER_S))
        return min(int(left_s / STEP_S), max(0, self._max_steps - self.steps))

    def leave_out(self) -> None:
        """Note that something was left out, although other work may go on."""
        self._has_left_out = True

    def _grant(self, steps: int) -> bool:
        """Read the clock, and allow these steps and some more where there is time."""
        if self.is_over:
            return False
        taken = self.steps
        is_large = steps > STEPS_BETWEEN_CHECKS
        has_time = self._clock() <= self._ends_at and (not is_large or steps <= self.affordable_steps())
        if not has_time or taken + steps > self._max_steps:
            self.end()
            return False
        more = steps if is_large else min(STEPS_BETWEEN_CHECKS, self._max_steps - taken)
        self._granted, self._left = self._granted - self._left + more, more - steps
        return True

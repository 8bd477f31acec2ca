"""Tells when the time of a stop is used up: by a clock, and in tests by a number of steps of work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gputui.probe.guards.originals import thread_time

STEPS_BETWEEN_CHECKS = 32
"""After how many steps the clock is read: reading it costs as much as a small step."""
FOREVER_S = 3600.0
STEP_S = 3e-6
"""About how many seconds a step takes: used only for work that cannot be interrupted once it has begun."""


class Meter:
    """Limits the work of one stop in processor time: on a busy machine a look is as thorough as on any other.

    Work calls `spend` before each step, and ends when that returns False. A step is the visit of one object, module,
    tensor or graph node: at most a few microseconds.
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
        """How many steps were allowed so far, the ones that are left included."""
        self._left = 0
        """How many steps are left until the clock is read again: for these, `spend` only subtracts."""
        self.is_over = False
        """Whether there is no time left."""
        self._has_left_out = False

    @property
    def steps(self) -> int:
        """How many steps were taken, in the parts as well."""
        return self._granted - self._left + sum(part.steps for part in self._parts)

    @property
    def is_complete(self) -> bool:
        """Whether nothing was left out."""
        return not self._has_left_out and all(part.is_complete for part in self._parts)

    def part(self, share: float) -> Meter:
        """A new meter for one piece of the work, with this share of the time and steps that are left."""
        left_s = max(0.0, self._ends_at - self._clock())
        left_steps = max(0, self._max_steps - self.steps)
        part = Meter(share * left_s, max_steps=int(share * left_steps), clock=self._clock)
        self._parts.append(part)
        return part

    @contextmanager
    def within(self, share: float) -> Iterator[None]:
        """Allow the work inside only this share of the time and steps that are left: other work needs the rest."""
        ends_at, max_steps, was_over, now = self._ends_at, self._max_steps, self.is_over, self._clock()
        self._ends_at = now + share * max(0.0, ends_at - now)
        self._max_steps = self.steps + int(share * max(0, max_steps - self.steps))
        try:
            yield
        finally:
            self._ends_at, self._max_steps, self.is_over = ends_at, max_steps, was_over

    def spend(self, steps: int = 1) -> bool:
        """Count these steps as taken; False if there is no time for them, and they must be left out."""
        if steps <= self._left:
            self._left -= steps
            return True
        return self._grant(steps)

    def has_time(self) -> bool:
        """Whether there is time left, by the clock: for work whose single steps may take long."""
        if not self.is_over and self._clock() > self._ends_at:
            self.end()
        return not self.is_over

    def end(self) -> None:
        """Allow no more steps, as something must be left out."""
        self.is_over = True
        self._granted, self._left = self._granted - self._left, 0
        self.leave_out()

    def affordable_steps(self) -> int:
        """For about how many steps there is time."""
        left_s = max(0.0, min(self._ends_at - self._clock(), FOREVER_S))
        return min(int(left_s / STEP_S), max(0, self._max_steps - self.steps))

    def leave_out(self) -> None:
        """Note that something was left out, although other work may go on."""
        self._has_left_out = True

    def _grant(self, steps: int) -> bool:
        """Read the clock, and allow these steps and some more if there is time."""
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

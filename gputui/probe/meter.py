"""What a stop of the program may cost: time by a clock, and steps of work that a test can count."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter

STEPS_BETWEEN_CHECKS = 32
"""The clock is read once in so many steps: reading it costs as much as a small step."""


class Meter:
    """Counts the steps of one stop. Work asks `spend` before each step and stops when it says no.

    A step is the visit of one object, module, tensor or graph node: at most a few microseconds.
    """

    def __init__(
        self, limit_s: float, *, max_steps: int = sys.maxsize, clock: Callable[[], float] = perf_counter
    ) -> None:
        self._clock = clock
        self._ends_at = clock() + limit_s
        self._steps_left = max_steps
        self._until_check = 0
        self.steps = 0
        """How many steps were taken."""
        self.is_over = False
        """Whether work was left out for lack of time or steps."""

    def spend(self, steps: int = 1) -> bool:
        """Account for the next steps; False if they must be left out."""
        if self.is_over:
            return False
        self.steps += steps
        self._until_check -= steps
        if self._until_check <= 0:
            self._until_check = STEPS_BETWEEN_CHECKS
            self.is_over = self.steps > self._steps_left or self._clock() > self._ends_at
        return not self.is_over

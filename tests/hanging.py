"""The one limit of the tests on waiting: whoever waits that long waits for something that will not come."""

from __future__ import annotations

import time
from collections.abc import Callable

HANGS_S = 600.0
"""Seconds. No test passes or fails by it on a slow or busy machine: it ends what hangs, before pytest's own limit."""
NOT_WITHIN_S = 0.3
"""How long a test waits for what never comes, where nothing else tells: on a slow machine it comes no sooner."""
POLL_S = 0.002
"""Between two questions whether what is waited for has come, where nothing tells."""


class Limit:
    """The end of one wait, which begins when this is made."""

    def __init__(self) -> None:
        self._end = time.monotonic() + HANGS_S

    def check(self, what: Callable[[], str]) -> None:
        """Fail with these words if the wait has reached its limit."""
        assert time.monotonic() < self._end, f"Waiting hangs: {what()}"


def wait_until(condition: Callable[[], object], what: Callable[[], str] = lambda: "a condition does not hold") -> None:
    """Wait until the condition holds, for as long as it takes; `what` tells why the test fails if it never does."""
    limit = Limit()
    while not condition():
        limit.check(what)
        time.sleep(POLL_S)

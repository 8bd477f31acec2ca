"""The one limit of the tests on waiting: whoever waits that long waits for something that will not come."""

from __future__ import annotations

import time
from collections.abc import Callable

HANGS_S = 600.0
"""Seconds. No test passes or fails by it on a slow or busy machine: it ends what hangs, before pytest's own limit."""
POLL_S = 0.005


def wait_until(condition: Callable[[], object], what: Callable[[], str] = lambda: "a condition") -> None:
    """Wait until the condition holds, for as long as it takes; `what` is said if it never does."""
    end = time.monotonic() + HANGS_S
    while not condition():
        assert time.monotonic() < end, f"Waiting for this hangs: {what()}."
        time.sleep(POLL_S)

"""Waiting for readings of another thread."""

from __future__ import annotations

import time
from collections.abc import Callable

from gputui.model.device import DeviceLook
from tests.sources.conftest import Looks


def until(condition: Callable[[], object], *, limit_s: float = 120) -> None:
    """Wait for another thread; only a failing test reaches the limit."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def look_until(looks: Looks, condition: Callable[[DeviceLook], object]) -> DeviceLook:
    """Look until `condition` holds, and return that look."""
    matching = []
    until(lambda: condition(look := looks.look()) and not matching.append(look))
    return matching[0]

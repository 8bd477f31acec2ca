"""Waiting for what another thread reads."""

from __future__ import annotations

import time
from collections.abc import Callable

from gputui.model.device import DeviceLook
from tests.sources.conftest import Looks


def until(condition: Callable[[], object], *, limit_s: float = 120) -> None:
    """Wait for another thread; the limit is for a test that fails."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def look_until(looks: Looks, condition: Callable[[DeviceLook], object]) -> DeviceLook:
    """The first look that `condition` holds for."""
    found = []
    until(lambda: condition(look := looks.look()) and not found.append(look))
    return found[0]

"""Waiting for readings of another thread."""

from __future__ import annotations

from collections.abc import Callable

from gputui.model.machine.device import DeviceLook
from tests.hanging import wait_until
from tests.sources.conftest import Looks


def look_until(looks: Looks, condition: Callable[[DeviceLook], object]) -> DeviceLook:
    """Look until `condition` holds, and return that look."""
    matching: list[DeviceLook] = []
    wait_until(lambda: condition(look := looks.look()) and not matching.append(look))
    return matching[0]

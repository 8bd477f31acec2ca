"""How the overview shares the height of the screen among its parts."""

from __future__ import annotations

from typing import NamedTuple

from gputui.model.snapshot import Snapshot

STATUS_LINES = KEYS_LINES = 1
HOST_LINES = 2
BAND_LINES = 7
"""The band of graphs: a title and six lines."""
BAND_FROM_WIDTH = 120
PROCESS_LINES_AT_LEAST = 9
"""A head and eight rows."""


class Arrangement(NamedTuple):
    """Lines of the device list (its head included, 0 without devices), and whether there is a band of graphs."""

    device_lines: int
    has_band: bool


def arrange(snapshot: Snapshot, width: int, height: int) -> Arrangement:
    """Devices take as many lines as they are, but the processes keep theirs; the band takes what is left over."""
    around = STATUS_LINES + HOST_LINES + KEYS_LINES
    count = len(snapshot.devices.devices)
    device_lines = min(count + 1, max(4, height - around - PROCESS_LINES_AT_LEAST)) if count else 0
    rows = sum(len(process.uses) for process in snapshot.processes.processes)
    wanted = max(PROCESS_LINES_AT_LEAST, min(rows + 3, height // 2))
    left = height - around - device_lines - wanted
    return Arrangement(device_lines, has_band=width >= BAND_FROM_WIDTH and left >= BAND_LINES)

"""The host memory of an attached process, as the kernel tells it."""

from __future__ import annotations

from gputui.model.reading import Reading
from gputui.sources.procfs import ENDED, ProcFs


def resident_bytes(pid: int) -> Reading[int]:
    """The resident memory of a process."""
    stat = ProcFs().stat(pid)
    return stat.rss_bytes if stat else ENDED

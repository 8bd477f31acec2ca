"""A viewer on which no key is pressed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from benchmarks.real_gpu.place import HANGS_S
from gputui.model.attached.moment import TargetMoment
from gputui.model.machine.snapshot import Snapshot
from gputui.sources.probe.feed import TargetFeed
from gputui.sources.probe.listing import attach


def view(pid: int, take: Callable[[TargetMoment], None], seconds: float, has_come: threading.Event) -> None:
    """Attach to a process with a probe and pass moments on, for some seconds and until `has_come`, but not for ever."""
    feed = TargetFeed(attach(pid), Snapshot, take)
    feed.start()
    time.sleep(seconds)
    has_come.wait(HANGS_S)
    feed.stop()

"""The recording that comes with gputui, which the demonstration replays for its processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gputui.model.snapshot import Snapshot
from gputui.sources.probe.listing import REMEDY, CannotAttachError
from gputui.sources.recording.player import Listener, Player, ReplayFeed
from gputui.sources.recording.reader import Recording

SHIPPED = Path(__file__).with_name("training.gputui")
"""Made by screenshots/make_recording.py, which says what happens in it."""

OPENS_AT_S = 20.0
"""Before that, the job imports and builds its model: there is nothing to see yet."""


def demo_feed(snapshot: Callable[[], Snapshot], pid: int, listener: Listener) -> ReplayFeed:
    """The recorded job as a process of the demonstration; raises GputuiError if that process has no probe."""
    process = next((candidate for candidate in snapshot().processes.processes if candidate.pid == pid), None)
    if process is None or not process.has_probe:
        cause = f"Process {pid} of the demonstration has no probe."
        raise CannotAttachError(cause, REMEDY)
    recording = Recording(SHIPPED)
    recorded = next(iter(recording.greetings))
    player = Player(recording, lambda greeting: replace(greeting, pid=pid))
    player.seek(OPENS_AT_S)
    return ReplayFeed(player, recorded, listener, shown_as=pid)

"""`gputui attach PID --record FILE` without a terminal: prints lines while it writes the file."""

from __future__ import annotations

from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic

from gputui.commands import attach_lines as text
from gputui.explain.disconnects import sentence
from gputui.model.moment import TargetMoment
from gputui.model.snapshot import Attention
from gputui.output import narrate, put
from gputui.settings import Settings
from gputui.sources.machine import LiveMachine
from gputui.sources.probe.feed import feed_opener
from gputui.sources.recording.recorder import Keeper

LOOK_INTERVAL_S = 1.0
"""Seconds between two looks at NVML and the host."""


def follow(pids: list[int], settings: Settings, recorder: Keeper) -> int:
    """Print a line for each device and moment until the last process has ended."""
    machine = LiveMachine()
    snapshot = machine.look(Attention(), LOOK_INTERVAL_S)
    moments: SimpleQueue[TargetMoment] = SimpleQueue()
    open_feed = feed_opener(settings.interval_s, recorder, settings.look_pause_s)(lambda: snapshot)
    feeds = [open_feed(pid, moments.put) for pid in pids]
    living = {feed.pid for feed in feeds}
    introduced: set[int] = set()
    due = monotonic() + LOOK_INTERVAL_S
    problem = ""
    try:
        for feed in feeds:
            feed.start()
        while living:
            with suppress(Empty):
                moment = moments.get(timeout=max(0.0, due - monotonic()))
                _show(moment, introduced)
                living -= {moment.pid} if moment.ended else set()
            if monotonic() >= due:
                due = monotonic() + LOOK_INTERVAL_S
                snapshot = machine.look(Attention(), LOOK_INTERVAL_S)
            if recorder.problem != problem:
                problem = recorder.problem
                narrate(problem)
    finally:
        for feed in feeds:
            feed.stop()
        machine.close()
    return 0


def _show(moment: TargetMoment, introduced: set[int]) -> None:
    if moment.pid not in introduced:
        introduced.add(moment.pid)
        put(text.introduction(moment.greeting))
    if moment.ended:
        narrate(sentence(moment.pid, moment.ended))
    else:
        put(text.summary_of(moment))

"""Follows attached processes without screens: as lines of text, or as one JSON document for each look."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection
from time import monotonic

from gputui.commands.attach import lines as text
from gputui.commands.reach.where import Here
from gputui.explain.documents.attach import attach_document
from gputui.explain.moment.disconnects import sentence
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.timeline import Timeline
from gputui.model.machine.snapshot import Attention
from gputui.output import has_reader, narrate, put, put_document
from gputui.settings import Settings
from gputui.sources.probe.feed import feed_opener
from gputui.sources.probe.recorder import NO_RECORDER, Recorder

LOOK_INTERVAL_S = 1.0
"""Seconds between two looks at NVML and the host, and between two checks that standard output still has a reader."""


def follow_in_lines(where: Here, pids: list[int], settings: Settings, recorder: Recorder) -> int:
    """Print a line for each device and moment until the last process has ended."""
    introduced: set[int] = set()

    def show(moment: TargetMoment) -> None:
        if moment.pid not in introduced:
            introduced.add(moment.pid)
            put(text.introduction(moment.greeting, moment.node))
        if not moment.ended:
            put(text.summary_of(moment))

    return _follow(where, pids, settings, show, recorder)


def follow_in_documents(where: Here, pids: list[int], settings: Settings, recorder: Recorder = NO_RECORDER) -> int:
    """Print an attach document for each look, one on a line, until the last process or the reader has gone.

    Ctrl-C and a reader that closes the pipe are ordinary ways to end it, so the exit status is 0.
    """
    timelines: defaultdict[int, Timeline] = defaultdict(Timeline)
    printed: dict[int, float] = {}

    def show(moment: TargetMoment) -> None:
        timeline = timelines[moment.pid]
        timeline.add(moment)
        if moment.look_time and moment.look_time != printed.get(moment.pid):
            printed[moment.pid] = moment.look_time
            put_document(attach_document(moment, timeline))

    try:
        return _follow(where, pids, settings, show, recorder)
    except (BrokenPipeError, KeyboardInterrupt):
        return 0


class Mailbox:
    """The newest moment of each process that has not been shown.

    While standard output is blocked, a newer moment replaces the one before, so that memory stays bounded.
    """

    def __init__(self) -> None:
        self._moments: dict[int, TargetMoment] = {}
        self._changed = threading.Condition()

    def put(self, moment: TargetMoment) -> None:
        """Keep a moment in place of an earlier one of the same process; called from the threads of feeds."""
        with self._changed:
            self._moments[moment.pid] = moment
            self._changed.notify()

    def take(self, timeout_s: float) -> Collection[TargetMoment]:
        """Wait for a moment, and return the newest of each process; empty after `timeout_s`."""
        with self._changed:
            if not self._moments:
                self._changed.wait(timeout_s)
            moments, self._moments = self._moments, {}
        return moments.values()


def _follow(
    where: Here, pids: list[int], settings: Settings, show: Callable[[TargetMoment], None], recorder: Recorder
) -> int:
    machine = where.machine()
    snapshot = machine.look(Attention(), LOOK_INTERVAL_S)
    mailbox = Mailbox()
    open_feed = feed_opener(settings.interval_s, recorder, settings.look_pause_s, where.attach)(lambda: snapshot)
    feeds = [open_feed(pid, mailbox.put) for pid in dict.fromkeys(pids)]
    living = {feed.pid for feed in feeds}
    due = monotonic() + LOOK_INTERVAL_S
    problem = ""
    try:
        for feed in feeds:
            feed.start()
        while living and has_reader():
            for moment in mailbox.take(max(0.0, due - monotonic())):
                show(moment)
                if moment.ended:
                    narrate(sentence(moment.pid, moment.ended))
                    living.remove(moment.pid)
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

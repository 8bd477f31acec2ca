"""The attached processes of the application: opens their feeds and takes what the feeds deliver."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Protocol

from textual.message import Message

from gputui.errors import GputuiError
from gputui.model.moment import TargetMoment
from gputui.model.timeline import Timeline
from gputui.ui.attach.targets import FeedMessage, OpenFeed, Targets
from gputui.ui.attach.tree_thread import TreeThread
from gputui.ui.messages import MomentsTaken, TimelineTaken, TreeBuilt


class Host(Protocol):
    """What `Attached` needs of the application."""

    def post_message(self, message: Message) -> bool:
        """Have `message` handled in the application's thread; called from the threads of feeds."""
        ...

    def say(self, sentence: str, *, is_error: bool = True) -> None:
        """Show a notice for a few seconds."""
        ...

    def show_attach_screen(self, name: str) -> None:
        """Go to an attach screen."""
        ...


class Attached:
    """The attached processes. Each feed delivers in its own thread; the application's thread takes what it delivers.

    Messages that feeds cause go to the application, which calls `take_moments` or `take_timeline` for them.
    """

    def __init__(self, host: Host, open_feed: OpenFeed) -> None:
        self._host = host
        self._trees = TreeThread(lambda tree, take: host.post_message(TreeBuilt(tree, take)))
        self._moments: SimpleQueue[TargetMoment] = SimpleQueue()
        self.targets = Targets(open_feed, self._trees.build)
        self.first_pids: tuple[int, ...] = ()
        """Processes that `start` attaches to."""
        self.first_notices: tuple[str, ...] = ()
        """Sentences that `start` shows."""
        self.is_replay = False
        """Whether gputui shows only a recording, without a monitor below it."""
        self.is_recording: Callable[[], bool] = bool
        """Whether the attached processes are being recorded into a file."""

    def start(self) -> None:
        """Attach to the first processes and show the first notices."""
        self.attach(*self.first_pids)
        for sentence in self.first_notices:
            self._host.say(sentence, is_error=False)

    def attach(self, *pids: int) -> None:
        """Attach to processes and show the first of them; say why one cannot be attached to."""
        attached = [pid for pid in pids if self._is_attached(pid)]
        if attached:
            self.targets.select(attached[0])
            self._host.show_attach_screen("memory")

    def stop(self) -> None:
        """Close every feed, without waiting."""
        self.targets.stop()
        self._trees.stop()

    def _is_attached(self, pid: int) -> bool:
        try:
            self.targets.attach(pid, partial(self._deliver, pid))
        except GputuiError as error:
            self._host.say(str(error))
            return False
        return True

    def _deliver(self, pid: int, message: FeedMessage) -> None:
        if isinstance(message, Timeline):
            self._host.post_message(TimelineTaken(pid, message))
        else:
            self._moments.put(message)
            self._host.post_message(MomentsTaken())

    def take_moments(self) -> None:
        """Add every moment that was delivered: one message may stand for many, and the timeline must miss none."""
        while not self._moments.empty():
            self.targets.take(self._moments.get())

    def take_timeline(self, message: TimelineTaken) -> None:
        """Replace the timeline of a process that is replayed."""
        self.targets.take_all(message.pid, message.timeline)

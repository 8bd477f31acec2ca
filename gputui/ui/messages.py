"""Messages to the application from other threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual.message import Message

from gputui.model.attached.timeline import Timeline
from gputui.model.machine.snapshot import Snapshot


@dataclass
class SnapshotTaken(Message):
    """The sampler has a new snapshot; a newer one replaces one that is still queued."""

    snapshot: Snapshot

    def can_replace(self, message: Message) -> bool:
        """Only the newest snapshot is worth drawing."""
        return isinstance(message, SnapshotTaken)


class MomentsTaken(Message):
    """Feeds have put moments of attached processes into the queue of `Attached`."""

    def can_replace(self, message: Message) -> bool:
        """One message stands for all moments in the queue."""
        return isinstance(message, MomentsTaken)


@dataclass
class HandedOver(Message):
    """A thread has a result: `take` hands it to whoever asked for it, in the application's thread."""

    take: Callable[[], None]


@dataclass
class TimelineTaken(Message):
    """A replay has a new timeline of a process: everything up to the replay's present moment."""

    pid: int
    timeline: Timeline

    def can_replace(self, message: Message) -> bool:
        """Only the newest timeline of a process is worth drawing."""
        return isinstance(message, TimelineTaken) and message.pid == self.pid

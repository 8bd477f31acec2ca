"""Messages between threads and widgets: state goes down, these go up."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from gputui.model.moment import TargetMoment
from gputui.model.snapshot import Snapshot


@dataclass
class SnapshotTaken(Message):
    """The sampler has a new snapshot; a newer one that waits replaces an older one."""

    snapshot: Snapshot

    def can_replace(self, message: Message) -> bool:
        """Only the newest snapshot is worth drawing."""
        return isinstance(message, SnapshotTaken)


@dataclass
class MomentTaken(Message):
    """A feed has a new moment of an attached process; a newer one of the same process replaces it."""

    moment: TargetMoment

    def can_replace(self, message: Message) -> bool:
        """Moments of one process; the timeline misses what the screen had no time for."""
        return isinstance(message, MomentTaken) and message.moment.pid == self.moment.pid

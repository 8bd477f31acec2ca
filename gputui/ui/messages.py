"""Messages between threads and widgets: state goes down, these go up."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from gputui.model.snapshot import Snapshot


@dataclass
class SnapshotTaken(Message):
    """The sampler has a new snapshot; a newer one that waits replaces an older one."""

    snapshot: Snapshot

    def can_replace(self, message: Message) -> bool:
        """Only the newest snapshot is worth drawing."""
        return isinstance(message, SnapshotTaken)


class MomentsTaken(Message):
    """Feeds have moments of attached processes, which wait in the application's queue."""

    def can_replace(self, message: Message) -> bool:
        """One message is enough for all that wait."""
        return isinstance(message, MomentsTaken)

"""Messages between threads and widgets: state goes down, these go up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual.message import Message

from gputui.explain.tensor_request import Tree
from gputui.model.snapshot import Snapshot
from gputui.model.timeline import Timeline


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


@dataclass
class TreeGrown(Message):
    """A tree of tensors is made; `take` is who waits for it."""

    tree: Tree
    take: Callable[[Tree], None]


@dataclass
class TimelineTaken(Message):
    """A replay has told of a process, all until now; what it tells next replaces it."""

    pid: int
    timeline: Timeline

    def can_replace(self, message: Message) -> bool:
        """Of one process only the newest."""
        return isinstance(message, TimelineTaken) and message.pid == self.pid

"""One of those who look: its connection, what it has asked for, and what it was told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gputui.protocol import frames

if TYPE_CHECKING:
    from gputui.probe.connection import Connection
    from gputui.probe.requests import LookRequest


class Viewer:
    """A connection with what its viewer has asked for and was told."""

    def __init__(self, connection: Connection, last_mark: int) -> None:
        self.connection = connection
        self.interval_s: float | None = None
        self.due = 0.0
        self.wanted: LookRequest | None = None
        self.seen: object = None
        self.greeting: dict[str, Any] = {}
        self.last_mark = last_mark

    @property
    def hears(self) -> bool:
        """Whether anything may be sent that it has not asked for this very moment."""
        connection = self.connection
        return connection.is_greeted and not connection.is_ending and not connection.has_unsent

    def is_due(self, now: float) -> bool:
        """Whether counters of `now` (`perf_counter`) are to be sent."""
        return self.interval_s is not None and now >= self.due

    def send(self, message: dict[str, Any]) -> None:
        """Send a small message."""
        self.connection.send(frames.encode(message))

"""One viewer: its connection, what it has asked for, and what it was sent last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gputui.protocol import frames

if TYPE_CHECKING:
    from gputui.probe.pace.budget import LookRequest
    from gputui.probe.serving.connection import Connection


class Viewer:
    """`interval_s` and `next_statistics_at` (`perf_counter`) are of the statistics it has subscribed to.

    `look_request` is the look it waits for, `stamp` the state of the allocator in the last look that it was sent.
    """

    def __init__(self, connection: Connection, last_mark: int) -> None:
        self.connection = connection
        self.interval_s: float | None = None
        self.next_statistics_at = 0.0
        self.look_request: LookRequest | None = None
        self.stamp: object = None
        self.greeting: dict[str, Any] = {}
        self.last_mark = last_mark

    @property
    def is_ready(self) -> bool:
        """Whether it can be sent more: it has read everything so far."""
        connection = self.connection
        return connection.is_greeted and not connection.is_ending and not connection.has_unsent

    def is_due(self, now: float) -> bool:
        """Whether counters read at `now` (`perf_counter`) are to be sent."""
        return self.interval_s is not None and now >= self.next_statistics_at

    def send(self, message: dict[str, Any]) -> None:
        """Send a small message."""
        self.connection.send(frames.encode(message))

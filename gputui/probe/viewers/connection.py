"""One viewer: what it has asked for, and its connection, which sends frames as fast as the viewer reads them.

A viewer that is too slow is disconnected.
"""

from __future__ import annotations

import _socket
from select import POLLOUT
from typing import TYPE_CHECKING, Any

from gputui.probe.guards.descriptors import Descriptor
from gputui.probe.guards.originals import monotonic
from gputui.probe.guards.probe_thread import poll
from gputui.protocol import frames

if TYPE_CHECKING:
    from gputui.probe.pace.budget import LookRequest


PATIENCE_S = 10.0
"""How long a viewer may take to say hello, to complete a frame it has begun, or to read what it was sent."""
_READ_BYTES = 64 * 1024
_WRITE_BYTES = 256 * 1024


class Gone(Exception):  # noqa: N818 (not an error: viewers come and go)
    """The viewer has gone, or is to be disconnected."""


class Connection:
    """A non-blocking socket. All times in here are `time.monotonic`."""

    def __init__(self, socket: _socket.socket) -> None:
        self._socket = socket
        self._descriptor = Descriptor(socket)
        self._unpacker = frames.Unpacker(frames.MAX_REQUEST_BYTES)
        self._unsent: list[memoryview] = []  # in reverse order: the next piece to send is the last
        self._read_deadline: float | None = monotonic() + PATIENCE_S
        self._write_deadline: float | None = None
        self.is_greeted = False
        self.is_ending = False
        """Set when the viewer is refused: it is disconnected once it has read the refusal."""

    def fileno(self) -> int:
        """What to poll on."""
        return self._socket.fileno()

    @property
    def has_unsent(self) -> bool:
        """Whether there is something the viewer has not read yet."""
        return bool(self._unsent)

    def check_patience(self) -> None:
        """Raise Gone if the viewer has taken longer than `PATIENCE_S` to say hello, to complete a frame or to read."""
        deadlines = (self._read_deadline, self._write_deadline)
        if any(deadline is not None and monotonic() > deadline for deadline in deadlines):
            raise Gone

    def receive(self) -> list[dict[str, Any]]:
        """The messages that have arrived. Raises Gone if the viewer has gone, FrameError for another protocol."""
        self._check()
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            raise Gone from error
        if not data:
            raise Gone
        messages = [frames.decode(payload) for payload in self._unpacker.feed(data)]
        if self._unpacker.is_midway:
            self._read_deadline = self._read_deadline or monotonic() + PATIENCE_S
        elif self.is_greeted or messages:
            self._read_deadline = None
        return messages

    def send(self, *pieces: bytes) -> None:
        """Send one frame, given in pieces, as far as the socket takes it now, and keep the rest for `flush`."""
        self._unsent[:0] = [memoryview(piece) for piece in reversed(pieces)]
        self.flush()

    def flush(self) -> None:
        """Send as much of the rest as the socket takes; raises Gone if the viewer has gone."""
        while self._unsent:
            self._check()
            piece = self._unsent.pop()
            try:
                sent_bytes = self._socket.send(piece[:_WRITE_BYTES], _socket.MSG_NOSIGNAL)
            except BlockingIOError:
                sent_bytes = 0
            except OSError as error:
                raise Gone from error
            if sent_bytes < len(piece):
                self._unsent.append(piece[sent_bytes:])
            if not sent_bytes:
                self._write_deadline = self._write_deadline or monotonic() + PATIENCE_S
                return
        self._write_deadline = None
        if self.is_ending:
            raise Gone

    def flush_until(self, deadline: float) -> None:
        """Send the rest, waiting for the viewer until the deadline; raises Gone if the viewer has gone."""
        self.flush()
        while self._unsent and (left_s := deadline - monotonic()) > 0:
            writable = poll()
            writable.register(self._socket.fileno(), POLLOUT)
            writable.poll(left_s * 1000)
            self.flush()

    def close(self) -> None:
        """Disconnect the viewer."""
        self._descriptor.close()

    def _check(self) -> None:
        if not self._descriptor.is_ours:
            raise Gone


class Viewer:
    """`interval_s` (None: not subscribed) and `next_statistics_at` (`perf_counter`) say when statistics are sent.

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
        """Whether it can be sent more: it has said hello, and has read everything so far."""
        connection = self.connection
        return connection.is_greeted and not connection.is_ending and not connection.has_unsent

    def is_due(self, now: float) -> bool:
        """Whether counters read at `now` (`perf_counter`) are to be sent."""
        return self.interval_s is not None and now >= self.next_statistics_at

    def send(self, message: dict[str, Any]) -> None:
        """Send a small message."""
        self.connection.send(frames.encode(message))

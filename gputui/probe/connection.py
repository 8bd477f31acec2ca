"""One viewer: what it sent, what waits to be sent to it, and when it has had its chance."""

from __future__ import annotations

import _socket
from select import POLLOUT, poll
from time import monotonic
from typing import Any

from gputui.probe.descriptors import Descriptor
from gputui.protocol import frames

PATIENCE_S = 10.0
"""How long a viewer may take to say hello, to end a frame it began, and to read what it was sent."""
_READ_BYTES = 64 * 1024
_WRITE_BYTES = 256 * 1024


class Gone(Exception):  # noqa: N818 (not an error: viewers come and go)
    """The viewer has gone, or is let go."""


class Connection:
    """A viewer's socket, never blocking; `now` is `time.monotonic` in here."""

    def __init__(self, socket: _socket.socket) -> None:
        self._socket = socket
        self._descriptor = Descriptor(socket)
        self._unpacker = frames.Unpacker(frames.MAX_REQUEST_BYTES)
        self._unsent: list[memoryview] = []  # the next one last
        self._reading_until: float | None = monotonic() + PATIENCE_S
        self._writing_until: float | None = None
        self.is_greeted = False
        self.is_ending = False
        """Set once the viewer is sent away: what is unsent is still sent."""

    def fileno(self) -> int:
        """What to poll on."""
        return self._socket.fileno()

    @property
    def has_unsent(self) -> bool:
        """Whether there is something the viewer has not read yet."""
        return bool(self._unsent)

    def check_patience(self) -> None:
        """Raise Gone where the viewer took too long."""
        limits = (self._reading_until, self._writing_until)
        if any(limit is not None and monotonic() > limit for limit in limits):
            raise Gone

    def receive(self) -> list[dict[str, Any]]:
        """The messages that have arrived; raises Gone at the end, and FrameError where it is not our protocol."""
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
            self._reading_until = self._reading_until or monotonic() + PATIENCE_S
        elif self.is_greeted or messages:
            self._reading_until = None
        return messages

    def send(self, *pieces: bytes) -> None:
        """Send one frame, given in pieces, as far as the socket takes it now, and keep the rest."""
        self._unsent[:0] = [memoryview(piece) for piece in reversed(pieces)]
        self.flush()

    def flush(self) -> None:
        """Send what the socket takes; raises Gone where the viewer is gone."""
        while self._unsent:
            self._check()
            piece = self._unsent.pop()
            try:
                sent = self._socket.send(piece[:_WRITE_BYTES], _socket.MSG_NOSIGNAL)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                raise Gone from error
            if sent < len(piece):
                self._unsent.append(piece[sent:])
            if not sent:
                self._writing_until = self._writing_until or monotonic() + PATIENCE_S
                return
        self._writing_until = None
        if self.is_ending:
            raise Gone

    def flush_until(self, time: float) -> None:
        """Send what waits, up to a time (`monotonic`); raises Gone where the viewer is gone."""
        self.flush()
        while self._unsent and (left_s := time - monotonic()) > 0:
            writable = poll()
            writable.register(self._socket.fileno(), POLLOUT)
            writable.poll(left_s * 1000)
            self.flush()

    def close(self) -> None:
        """Let the viewer go."""
        self._descriptor.close()

    def _check(self) -> None:
        if not self._descriptor.is_ours:
            raise Gone

"""A connection to one node through the user's ssh, which asks for no password: a screen shows many nodes at once."""

from __future__ import annotations

import time

from gputui.errors import GputuiError
from gputui.model.fleet.parts import Place
from gputui.model.told import NodeLook
from gputui.sources.hosts.looks import SCHEMA, WrongDocumentError, look_of
from gputui.sources.received import received
from gputui.sources.ssh import Ssh

LINE_AT_MOST = 16 << 20
_NOISE_BYTES = 64 * 1024
"""How many bytes of other output may come before a document: the shell's startup files may print."""
_BEGIN = b'{"schema": "'
_READ_BYTES = 256 * 1024


class _TooMuchError(Exception):
    """The node sends too long a line, or too much that is no document."""


class Connection:
    """gputui on a node, which prints a document for each look."""

    def __init__(self, node: str, arguments: str) -> None:
        """Start gputui there with these arguments. Raises `GputuiError` if there is no ssh."""
        self._node = node
        self._ssh = Ssh(node, arguments, is_batch=True)
        self._unread = bytearray()
        self._has_answered = False

    def next_look(self, within_s: float) -> NodeLook:
        """The next look; raises `GputuiError` if the connection ends, or nothing comes in time."""
        try:
            line = self._document(time.monotonic() + within_s)
        except OSError as error:
            cause = f"gputui on {self._node} has said nothing for {within_s:.0f} s."
            raise GputuiError(cause, f"Check what this prints: ssh {self._node} gputui --once.") from error
        except _TooMuchError:
            cause = f"What {self._node} sends has no end, or is nothing that gputui prints."
            raise GputuiError(cause, f"Check what this prints: ssh {self._node} gputui --once.") from None
        if not line:
            raise self._ended()
        try:
            look = look_of(line, Place("", self._node))
        except WrongDocumentError as error:
            cause = f"gputui on {self._node} prints {error.schema or 'something else'}, and {SCHEMA} is expected here."
            raise GputuiError(cause, "Install the same version of gputui on both.") from None
        self._has_answered = True
        return look

    def close(self) -> None:
        """End the connection, and gputui on the node."""
        self._ssh.end()

    def _document(self, deadline: float) -> bytes:
        """The next line that is a document, b"" at the end; raises TimeoutError at the deadline (monotonic clock)."""
        noise = 0
        while line := self._line(deadline):
            if line.startswith(_BEGIN):
                return line
            noise += len(line)
            if noise > _NOISE_BYTES:
                raise _TooMuchError
        return b""

    def _line(self, deadline: float) -> bytes:
        searched = 0
        while (end := self._unread.find(b"\n", searched)) < 0:
            searched = len(self._unread)
            if searched > (LINE_AT_MOST if self._unread.startswith(_BEGIN) else _NOISE_BYTES):
                raise _TooMuchError
            part = received(self._ssh.socket, _READ_BYTES, deadline)
            if not part:
                return b""
            self._unread += part
        line = bytes(self._unread[: end + 1])
        del self._unread[: end + 1]
        return line

    def _ended(self) -> GputuiError:
        if self._has_answered:
            cause = f"gputui on {self._node} has ended, or the connection to it has{self._ssh.last_words()}."
            return GputuiError(cause, "It is started again.")
        return GputuiError(*self._ssh.failure())

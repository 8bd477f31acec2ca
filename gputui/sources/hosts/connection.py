"""One node through the user's ssh, which asks nothing: a screen shows many, and none of them may take the terminal."""

from __future__ import annotations

from gputui.errors import GputuiError
from gputui.model.fleet.parts import Place
from gputui.model.told import NodeLook
from gputui.sources.hosts.looks import SCHEMA, WrongDocumentError, look_of
from gputui.sources.ssh import Ssh

FIRST_WITHIN_S = 40.0
"""ssh gives up after 10 s; without persistence mode, the driver may take 30 s for its first answer."""
LINE_AT_MOST = 16 << 20
_NOISE_LINES = 1000
"""How many lines the shell's own files may print before the first document."""
_BEGIN = b'{"schema": "'


class Connection:
    """gputui on a node, which prints a document for each look."""

    def __init__(self, node: str, arguments: str) -> None:
        """Start it. Raises `GputuiError` if there is no ssh."""
        self._node = node
        self._ssh = Ssh(node, arguments, is_batch=True)
        self._stream = self._ssh.socket.makefile("rb")
        self._has_answered = False

    def next_look(self, within_s: float = FIRST_WITHIN_S) -> NodeLook:
        """The next one; raises `GputuiError` with what ssh says, or because nothing has come."""
        self._ssh.socket.settimeout(within_s)
        try:
            line = self._next_line()
        except OSError as error:
            cause = f"gputui on {self._node} has said nothing for {within_s:.0f} s."
            raise GputuiError(cause, f"Check what this prints: ssh {self._node} gputui --once.") from error
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
        """End it there, too."""
        self._ssh.end()

    def _next_line(self) -> bytes:
        for _ in range(_NOISE_LINES):
            line = self._stream.readline(LINE_AT_MOST)
            if not line or line.startswith(_BEGIN):
                return line
        return b""

    def _ended(self) -> GputuiError:
        if self._has_answered:
            cause = f"gputui on {self._node} has ended, or the connection to it has{self._ssh.last_words()}."
            return GputuiError(cause, "It is started again.")
        return GputuiError(*self._ssh.failure())

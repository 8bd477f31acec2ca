"""The user's ssh, with the user's configuration: starts gputui on another machine, and says what went wrong."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from contextlib import suppress

from gputui.errors import GputuiError
from gputui.model.printable import printable

_OPTIONS = {
    "ClearAllForwardings": "yes",
    "Compression": "yes",
    "ConnectTimeout": "10",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "RemoteCommand": "none",
    "ServerAliveCountMax": "3",
    "ServerAliveInterval": "5",
}
"""What these connections need whatever the user's configuration says: no forwardings, an end if the line is cut."""
_COMMAND = "sh -c 'PATH=$PATH:$HOME/.local/bin; export PATH; exec gputui {}'"
"""The same in every login shell; ~/.local/bin is where uv and pipx install, and not in the PATH of ssh's commands."""
_KEPT_BYTES = 4096
_ENDS_WITHIN_S = 3.0
_SAID_WITHIN_S = 0.5
"""A connection that ssh shares and keeps (ControlPersist) may hold standard error open."""
_SSH_FAILED, _NOT_FOUND, _UNKNOWN_COMMAND = 255, 127, 2
_REMEDIES = (
    (b"Could not resolve hostname", "Check the name, or add it to ~/.ssh/config."),
    (b"Host key verification failed", "Connect once by hand, and compare the key: ssh {}."),
    (b"Permission denied", "Check that this works: ssh {} true. ~/.ssh/config can name another user or key for it."),
)
"""What helps, by what ssh prints: its exit status is the same for all of them."""


class CannotReachError(GputuiError):
    """There is no ssh here, or it cannot be started."""


class Ssh:
    """gputui on a machine, with some arguments; `socket` is its standard input and output, and ends with it."""

    def __init__(self, node: str, arguments: str, *, is_batch: bool) -> None:
        """Start it; with `is_batch`, ssh asks nothing. Raises CannotReachError if there is no ssh."""
        self._node = node
        self._said = b""
        options = [f"-o{name}={value}" for name, value in _OPTIONS.items()]
        if is_batch:
            options.append("-oBatchMode=yes")
        target = node.replace("[", "").replace("]", "")
        try:
            self.socket, theirs = socket.socketpair()
            with theirs:
                self._process = subprocess.Popen(
                    ["ssh", "-T", *options, "--", target, _COMMAND.format(arguments)],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.PIPE,
                )
        except FileNotFoundError as error:
            cause = "There is no ssh on this machine."
            raise CannotReachError(cause, "Install OpenSSH's client, such as the package openssh-client.") from error
        except OSError as error:
            cause = f"ssh cannot be started: {error.strerror or error}."
            raise CannotReachError(cause) from error
        self._thread = threading.Thread(target=self._listen, name=f"gputui-ssh-{node}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """End the connection; what was started there ends with it."""
        self._process.terminate()
        self.socket.close()

    def last_words(self) -> str:
        """The last line that ssh has printed, in brackets, once it has ended; "" without any."""
        self._await_end()
        line = self._last_line()
        return f" ({line.rstrip('.')})" if line else ""

    def failure(self) -> tuple[str, str]:
        """Cause and remedy where no relay has answered."""
        self._await_end()
        node, status, line = self._node, self._process.returncode, self._last_line()
        if status == _NOT_FOUND:
            cause = f"{node} has no gputui in its PATH, nor in ~/.local/bin."
            return cause, f"Install it there: ssh {node} uv tool install gputui (or pipx install gputui)."
        if status == _UNKNOWN_COMMAND:
            cause = f"The gputui on {node} is too old to be looked through."
            return cause, f"Update it there: ssh {node} uv tool upgrade gputui (or pipx upgrade gputui)."
        if status == _SSH_FAILED:
            remedies = (remedy for said, remedy in _REMEDIES if said in self._said)
            cause = f"ssh does not reach {node}: {line.rstrip('.') or 'it gave no reason'}."
            return cause, next(remedies, "Check that this works: ssh {} true.").format(node)
        return f"{node} did not answer as gputui does{self.last_words()}.", f"Check what this prints: ssh {node} true."

    def _await_end(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_WITHIN_S)
            self._thread.join(_SAID_WITHIN_S)

    def _last_line(self) -> str:
        lines = self._said.decode(errors="replace").strip().splitlines()
        return printable(lines[-1].strip())[:300] if lines else ""

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            while data := os.read(stream.fileno(), _KEPT_BYTES):
                self._said = (self._said + data)[-_KEPT_BYTES:]
        self._process.wait()

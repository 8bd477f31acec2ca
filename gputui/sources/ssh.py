"""Starts gputui on another machine through the user's ssh and its configuration, and says what went wrong."""

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
"""What these connections need whatever the user's configuration says: no forwardings, and an end if the line breaks."""
_COMMAND = "sh -c 'PATH=$PATH:$HOME/.local/bin; export PATH; exec gputui {}'"
"""Works in every login shell; uv and pipx install to ~/.local/bin, which is not in the PATH of ssh's commands."""
_KEPT_BYTES = 4096
_ENDS_WITHIN_S = 3.0
_SAID_WITHIN_S = 0.5
"""How long ssh's last words may take after its end: a shared connection (ControlPersist) may hold stderr open."""
_SSH_FAILED, _NOT_FOUND, _UNKNOWN_COMMAND = 255, 127, 2
_REMEDIES = (
    (b"Could not resolve hostname", "Check the name, or add it to ~/.ssh/config."),
    (b"Host key verification failed", "Connect once by hand, and compare the key: ssh {}."),
    (b"Permission denied", "Check that this works: ssh {} true. ~/.ssh/config can name another user or key for it."),
)
"""Remedies, by what ssh prints: its exit status is the same for all these errors."""


class CannotReachError(GputuiError):
    """ssh is missing on this machine, or cannot be started."""


class Ssh:
    """gputui on another machine, with some arguments; `socket` is its standard input and output."""

    def __init__(self, node: str, arguments: str, *, is_batch: bool) -> None:
        """Start ssh; with `is_batch`, it asks for no password. Raises CannotReachError."""
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
        """End the connection, and with it what was started on the other machine."""
        self._process.terminate()
        self.socket.close()

    def last_words(self) -> str:
        """The last line that ssh printed, in brackets behind a space; "" without one. Waits for ssh's end."""
        self._await_end()
        line = self._last_line()
        return f" ({line.rstrip('.')})" if line else ""

    def failure(self) -> tuple[str, str]:
        """Cause and remedy where gputui on the other machine has not answered."""
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

"""A conversation with the probe of a process on another machine, through the user's ssh and `gputui relay` there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from gputui.errors import UsageError
from gputui.model.attached.target import Disconnect, DisconnectKind, Greeting
from gputui.model.nodes import can_be_node
from gputui.model.printable import printable
from gputui.protocol import frames
from gputui.protocol.relaying import FAILED, GONE, NO_PROBE, NOTE, READY, RELAY, YES
from gputui.sources.probe.client import ProbeClient, ProbeError
from gputui.sources.probe.listing import CannotAttachError
from gputui.sources.ssh import Ssh

_BEGIN = frames.header(0)[:5]
"""How the relay begins: its first message is small, and so its length begins with a zero, which no shell prints."""
_NOISE_BYTES = 64 * 1024
"""How much the shell's own files may print there before the relay speaks."""
_EARLIER_MESSAGES = 100
"""How many messages of the probe may come before its answer to this viewer."""
_BATCH_WITHIN_S = 20.0


class Place(NamedTuple):
    """A process on another machine: the machine as the user's ssh knows it, and the PID there."""

    node: str
    pid: int

    def __str__(self) -> str:
        return f"{self.node}:{self.pid}"


def place_of(word: str) -> Place:
    """The place in NODE:PID. Raises `UsageError` for anything else, such as an option of ssh."""
    node, _, pid = word.rpartition(":")
    if not can_be_node(node):
        cause = f"{node!r} is not the name of a machine."
        raise UsageError(
            cause, "Name a process on another machine as NODE:PID or USER@NODE:PID, as ssh knows the node."
        )
    if not (pid.isascii() and pid.isdecimal() and 0 < int(pid[:11]) < 2**31):
        cause = f"{pid!r} is not a PID."
        raise UsageError(cause, f"To list the processes there: ssh {node} gputui attach.")
    return Place(node, int(pid))


class FarClient(ProbeClient):
    """A connection to the probe of a process on another machine.

    Beside ProbeError, the constructor raises CannotReachError if there is no ssh, and CannotAttachError with what ssh
    or gputui on the other machine says.
    """

    def __init__(
        self, place: Place, answer: Callable[[str], str], tell: Callable[[str], object], *, may_ask: bool
    ) -> None:
        """Connect; where the process has no probe, `answer` gets its program and returns a word of `ANSWERS`.

        `tell` gets sentences about the wait for the probe. With `may_ask`, ssh may ask for a password on the terminal.
        """
        self.node, self._answer, self._tell = place.node, answer, tell
        self._within_s = None if may_ask else _BATCH_WITHIN_S
        self._gone: Disconnect | None = None
        self._ssh = Ssh(place.node, f"relay {place.pid:d}", is_batch=not may_ask)
        try:
            super().__init__(self._ssh.socket, place.pid)
        except BaseException:  # Ctrl-C while ssh waits, too: the socket ends it, and the exception goes on
            self._ssh.socket.close()
            raise

    def _greet(self) -> Greeting:
        self._await_relay()
        return super()._greet()

    def _await_relay(self) -> None:
        self._skip_noise()
        while True:
            payload = self._next_payload(3600.0 if self._within_s is None else self._within_s)
            if payload is None:
                raise self._error(DisconnectKind.NOT_ANSWERING)
            message = self._decoded(payload)
            state = message.get("state") if message["type"] == RELAY else None
            if state == READY:
                return
            if state == NO_PROBE:
                word = self._answer(_text(message, "program"))
                self.send({"type": RELAY, "word": word})
                if word != YES:
                    cause = f"Process {self._pid} on {self.node} has no probe."
                    raise CannotAttachError(cause, f"To put it in: gputui attach {self.node}:{self._pid} --yes.")
            elif state == NOTE:
                self._tell(_text(message, "text"))
            elif state == FAILED:
                cause = f"gputui on {self.node} says: {_text(message, 'cause')}"
                raise CannotAttachError(cause, _text(message, "remedy"))
            else:
                reason = "it is no message of a relay"
                raise self._broken(reason)

    def _skip_noise(self) -> None:
        """Skip what the shell's startup files print there; raises CannotAttachError if no relay follows."""
        self._socket.settimeout(self._within_s)
        data = b""
        while _BEGIN not in data:
            chunk = self._socket.recv(4096) if len(data) < _NOISE_BYTES else b""
            if not chunk:
                self._socket.close()
                raise CannotAttachError(*self._ssh.failure())
            data += chunk
        self._take(data[data.index(_BEGIN) :])

    def _first_payload(self) -> bytes | None:
        for _ in range(_EARLIER_MESSAGES):
            payload = self._next_payload(self._answer_within_s)
            if payload is None or self._decoded(payload)["type"] in ("hello", "refused"):
                return payload
        return None

    def _is_ending(self, message: dict[str, object]) -> bool:
        if message["type"] != RELAY or message.get("state") != GONE:
            return super()._is_ending(message)
        with suppress(ValueError):
            self._gone = Disconnect(DisconnectKind(message.get("kind")), _text(message, "detail"))
        return True

    def _disconnected(self, error: OSError | None) -> ProbeError:
        if self._ending is not None:
            return super()._disconnected(error)
        self.close()
        if self._gone is not None:
            return ProbeError(self._pid, self._gone)
        return self._error(
            DisconnectKind.UNREACHABLE, f"the ssh connection to {self.node} ended{self._ssh.last_words()}"
        )


def _text(message: dict[str, object], name: str) -> str:
    return printable(str(message.get(name, "")))[:2000]

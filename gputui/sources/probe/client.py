"""A conversation with one probe. Calls block, with time limits: screens use it in a thread of their own."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import TypeVar

from gputui import __version__
from gputui.errors import GputuiError
from gputui.explain.moment.disconnects import cause_and_remedy
from gputui.explain.moment.probe_state import Message
from gputui.model.attached.target import (
    ActionName,
    ActionResult,
    Disconnect,
    DisconnectKind,
    Ending,
    Greeting,
    Look,
    Mark,
    ReferencesPart,
    Statistics,
)
from gputui.model.attached.trace import RecordedTraces
from gputui.model.decode import DecodeError, decode
from gputui.model.printable import printable
from gputui.protocol import frames
from gputui.sources.probe.exit_reason import exit_reason
from gputui.sources.probe.messages import message_of

M = TypeVar("M", Greeting, Statistics, Look, Mark, ActionResult, RecordedTraces)

STEP_WITHIN_S = 90.0
"""How long a recorded step may take to arrive."""
_READ_BYTES = 256 * 1024
ANSWER_WITHIN_S = 10.0
RESULT_WITHIN_S = 30.0
"""How long a probe may take for a result: on a busy machine, looks take long."""
ACTION_WAIT_S = 10.0
"""How long the program's main thread may take to come back to Python for an action."""


class ProbeError(GputuiError):
    """The conversation with a probe has failed or ended; `disconnect` says why."""

    def __init__(self, pid: int, disconnect: Disconnect) -> None:
        super().__init__(*cause_and_remedy(pid, disconnect))
        self.disconnect = disconnect


class ProbeDeadError(ProbeError):
    """Nobody listens on the socket any more: the process has ended, or runs another program now."""


class ProbeClient:
    """A connection to a probe; `greeting` is the probe's newest description of its process.

    Every method raises ProbeError if the process has ended or the probe violates the protocol.
    """

    node = ""
    """The machine on which the process runs, as the user names it; "" for this one."""

    def __init__(
        self,
        path: str | socket.socket,
        pid: int,
        most_bytes: int = frames.MAX_REPLY_BYTES,
        answer_within_s: float = ANSWER_WITHIN_S,
    ) -> None:
        """Connect to a socket by its path, or use a connected socket.

        No message of the probe may have more than `most_bytes`; it must answer within `answer_within_s`.
        """
        self._pid, self._answer_within_s = pid, answer_within_s
        self._unpacker = frames.Unpacker(most_bytes)
        self._payloads: list[bytes] = []
        self._ending: Ending | None = None
        self.on_message: Callable[[dict[str, object]], None] = lambda _message: None
        """Called with the JSON of each message, after it was checked."""
        try:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) if isinstance(path, str) else path
        except OSError as error:  # no file descriptor is left
            raise self._error(DisconnectKind.UNREACHABLE, error.strerror or str(error)) from error
        try:
            self._socket.settimeout(self._answer_within_s)
            if isinstance(path, str):
                self._socket.connect(path)
            self.greeting = self._greet()
        except ConnectionRefusedError as error:
            self.close()
            raise ProbeDeadError(pid, Disconnect(DisconnectKind.EXITED)) from error
        except BlockingIOError as error:  # the probe accepts nobody, and its backlog is full
            self.close()
            raise self._error(DisconnectKind.NOT_ANSWERING) from error
        except OSError as error:
            raise self._disconnected(error) from error
        except ProbeError:
            self.close()
            raise

    def __enter__(self) -> ProbeClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def fileno(self) -> int:
        """The descriptor to poll for the next message."""
        return self._socket.fileno()

    def close(self) -> None:
        """End the conversation."""
        self._socket.close()

    def hand_over(self) -> tuple[socket.socket, bytes]:
        """The socket, for another program to go on with, and the bytes that have arrived but were not received."""
        return self._socket, b"".join(map(frames.frame, self._payloads)) + self._unpacker.unfinished

    def subscribe(self, interval_s: float | None) -> None:
        """Ask for statistics now and every `interval_s` seconds, or end that (None)."""
        self.send({"type": "statistics", "interval_s": interval_s})

    def ask_look(
        self, how: str = "walk", *, when: str = "now", wait_s: float = 3.0, pause_s: float | None = None
    ) -> None:
        """Ask for a look: with the inventory by "walk" or "scan", or without an inventory ("").

        `when` is "now", or "changed": once something has changed and automatic looks are within their share of time.
        If the main thread does not come back to Python within `wait_s`, the look is taken without it. `pause_s` is how
        long one stop of the program may take; None: 25 ms for an automatic look, 100 ms for one on request.
        """
        pause = {} if pause_s is None else {"pause_ms": pause_s * 1000}
        self.send({"type": "look", "how": how, "when": when, "wait_s": wait_s, **pause})

    def mark(self, label: str) -> None:
        """Name this moment, for all viewers of the process."""
        self.send({"type": "mark", "label": label})

    def ask_action(self, name: ActionName, *, wait_s: float = ACTION_WAIT_S) -> None:
        """Ask for an action; the probe gives up if the main thread does not come back to Python within `wait_s`."""
        self.send({"type": "action", "name": name.value, "wait_s": wait_s})

    def end_probe(self) -> None:
        """End a probe that was put into the running program; raises ProbeError if it refuses."""
        self.send({"type": "end"})
        try:
            while self.receive(self._answer_within_s) is not None:
                pass
        except ProbeError as error:
            if error.disconnect.kind is DisconnectKind.PROBE_STOPPED:
                return
            raise
        raise self._error(DisconnectKind.NOT_ANSWERING)

    def receive(self, timeout_s: float) -> Message | None:
        """The next message, or None if none arrives within `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        try:
            while True:
                payload = self._next_payload(max(0.0, deadline - time.monotonic()))
                if payload is None:
                    return None
                message = self._decoded(payload)
                if not self._is_ending(message):  # only the end of the connection can follow
                    break
            decoded = message_of(message)
        except DecodeError as error:
            raise self._broken(str(error)) from error
        if decoded is None:
            raise self._refused(message)
        if not isinstance(decoded, ReferencesPart):  # addresses that say nothing afterwards
            self.on_message(message)
        if isinstance(decoded, Greeting):
            decoded = self.greeting = replace(decoded, pid=self._pid)  # inside a container it has another PID
        return decoded

    def waiting(self) -> Iterator[Message]:
        """The messages that have arrived; if none is complete, waits for one. Call it when `fileno` is readable."""
        yield from filter(None, [self.receive(self._answer_within_s)])
        while self._payloads:
            yield from filter(None, [self.receive(0)])

    def look(self, how: str = "walk", *, wait_s: float = 3.0) -> Look:
        """Take a look now."""
        self.ask_look(how, wait_s=wait_s)
        return self._await(Look, wait_s + RESULT_WITHIN_S)

    def run_action(self, name: ActionName, *, wait_s: float = ACTION_WAIT_S) -> ActionResult:
        """Run an action in the program and wait for its result."""
        self.ask_action(name, wait_s=wait_s)
        return self._await(ActionResult, wait_s + RESULT_WITHIN_S)

    def record_step(self) -> tuple[RecordedTraces | None, ActionResult]:
        """Record a step, which takes up to half a minute; the result says why there is none."""
        self.ask_action(ActionName.RECORD_STEP)
        recorded: RecordedTraces | None = None
        deadline = time.monotonic() + STEP_WITHIN_S
        while (left := deadline - time.monotonic()) > 0:
            message = self.receive(left)
            if isinstance(message, RecordedTraces):
                recorded = message
            elif isinstance(message, ActionResult):
                return recorded, message
        raise self._error(DisconnectKind.TIMED_OUT, f"{STEP_WITHIN_S:g}")

    def statistics(self) -> Statistics:
        """The current statistics."""
        self.subscribe(3600.0)
        statistics = self._await(Statistics, RESULT_WITHIN_S)
        self.subscribe(None)
        return statistics

    def _await(self, kind: type[M], timeout_s: float) -> M:
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            message = self.receive(left)
            if isinstance(message, kind):
                return message
        raise self._error(DisconnectKind.TIMED_OUT, f"{timeout_s:g}")

    def _greet(self) -> Greeting:
        with suppress(OSError):  # a probe that refuses sends its reason and hangs up at once
            self._socket.sendall(frames.encode({"type": "hello", "protocol": frames.VERSION, "gputui": __version__}))
        payload = self._first_payload()
        if payload is None:
            self.close()
            raise self._error(DisconnectKind.NOT_ANSWERING)
        hello = self._decoded(payload)
        if hello["type"] != "hello" or hello.get("protocol") != frames.VERSION:
            raise self._refused(hello)
        return self._await_greeting()

    def _first_payload(self) -> bytes | None:
        return self._next_payload(self._answer_within_s)

    def _is_ending(self, message: dict[str, object]) -> bool:
        """Keep a message that says how the process ended; returns False for any other message."""
        if message["type"] != "ended":
            return False
        self._ending = decode(Ending, message)
        return True

    def _await_greeting(self) -> Greeting:
        message = self.receive(self._answer_within_s)
        if isinstance(message, Greeting):
            return message
        reason = "it sent no greeting"
        raise self._broken(reason)

    def send(self, message: dict[str, object]) -> None:
        """Send a message; if the probe has gone, its last ones can still be received."""
        try:
            self._socket.settimeout(self._answer_within_s)
            self._socket.sendall(frames.encode(message))
        except (BrokenPipeError, ConnectionResetError):
            return  # its last messages can still be read: `receive` raises after them
        except OSError as error:
            raise self._disconnected(error) from error

    def _next_payload(self, timeout_s: float) -> bytes | None:
        deadline = time.monotonic() + timeout_s
        while not self._payloads:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                data = self._socket.recv(_READ_BYTES)
            except TimeoutError:
                return None
            except OSError as error:
                raise self._disconnected(error) from error
            if not data:
                raise self._disconnected(None)
            self._take(data)
        return self._payloads.pop(0)

    def _take(self, data: bytes) -> None:
        try:
            self._payloads += self._unpacker.feed(data)
        except frames.FrameError as error:
            raise self._broken(str(error)) from error

    def _decoded(self, payload: bytes) -> dict[str, object]:
        try:
            return frames.decode(payload)
        except frames.FrameError as error:
            raise self._broken(str(error)) from error

    def _refused(self, message: dict[str, object]) -> ProbeError:
        theirs, version = message.get("protocol"), printable(str(message.get("gputui", "an unknown version")))[:40]
        if message["type"] in ("hello", "refused") and theirs != frames.VERSION:
            return self._error(DisconnectKind.OTHER_VERSION, version)
        reason = printable(str(message.get("reason", "it gave no reason")))[:500]
        return self._error(DisconnectKind.REFUSED, reason)

    def _broken(self, reason: str) -> ProbeError:
        self.close()
        return self._error(DisconnectKind.BROKEN_PROTOCOL, reason)

    def _disconnected(self, error: OSError | None) -> ProbeError:
        self.close()
        if self._ending is None and error is not None and not isinstance(error, ConnectionError):
            return self._error(DisconnectKind.UNREACHABLE, error.strerror or str(error))
        return ProbeError(self._pid, exit_reason(self._pid, self._ending))

    def _error(self, kind: DisconnectKind, detail: str = "") -> ProbeError:
        return ProbeError(self._pid, Disconnect(kind, detail))

"""`gputui relay`: connects standard input and output to the probe of a process, for a viewer on another machine."""

from __future__ import annotations

import os
import socket
import sys
from threading import Event, Thread

from gputui import __version__
from gputui.commands.parser import Parser, pid_of
from gputui.commands.reach.probes import ONCE_WAITS_S, program_without_probe
from gputui.errors import GputuiError
from gputui.protocol import frames
from gputui.protocol.relaying import FAILED, GONE, NEVER, NO, NO_PROBE, NOTE, READY, RELAY, YES
from gputui.settings import Settings
from gputui.sources.probe import listing, loading, never_programs
from gputui.sources.probe.client import ProbeClient
from gputui.sources.probe.exit_reason import exit_reason

_CHUNK_BYTES = 256 * 1024
_LAST_WORD = b'"type":"ended"'
_LAST_WORD_WITHIN_BYTES = 64 * 1024


def run(arguments: list[str], _settings: Settings | None = None) -> int:
    """Pass on what viewer and probe say until one of them has gone."""
    parser = Parser(
        prog="gputui relay",
        usage="gputui relay PID",
        description="Not for people: what `gputui attach NODE:PID` runs on that machine, through ssh.",
    )
    parser.add_argument("pid", metavar="PID", help="a process with the probe loaded")
    pid = pid_of(parser.parse(arguments).pid)
    try:
        client = _attached(pid)
    except GputuiError as error:
        _tell(state=FAILED, cause=error.cause, remedy=error.remedy)
        return error.exit_status
    _tell(state=READY, gputui=__version__)
    probe, unread = client.hand_over()
    _write(unread)
    _pass_on(probe, pid)
    return 0


def _attached(pid: int) -> ProbeClient:
    """A connection to the probe of a process; a missing probe is put in if the viewer says so."""
    try:
        return listing.attach(pid)
    except listing.NoProbeError:
        program = program_without_probe(pid)
        _tell(state=NO_PROBE, program=program)
        word = _answer()
        if word == NEVER:
            never_programs.refuse(program)
        if word != YES:
            raise
    loading.put_probe_in(pid, lambda text: _tell(state=NOTE, text=text), ONCE_WAITS_S)
    return listing.attach(pid)


def _answer() -> str:
    """The viewer's word, "no" if the viewer has gone."""
    unpacker = frames.Unpacker(frames.MAX_REQUEST_BYTES)
    payloads: list[bytes] = []
    try:
        while not payloads:
            data = os.read(0, frames.HEADER_BYTES)  # small reads: until READY, the viewer sends nothing else
            if not data:
                return NO
            payloads = unpacker.feed(data)
        return str(frames.decode(payloads[0]).get("word"))
    except frames.FrameError:
        return NO


def _pass_on(probe: socket.socket, pid: int) -> None:
    has_left = Event()
    probe.settimeout(None)
    Thread(target=_listen, args=(probe, has_left), name="gputui-relay", daemon=True).start()
    tail = b""
    while data := _received(probe):
        _write(data)
        tail = (tail + data)[-_LAST_WORD_WITHIN_BYTES:]
    if not has_left.is_set() and _LAST_WORD not in tail:
        how = exit_reason(pid, None)
        _tell(state=GONE, kind=how.kind.value, detail=how.detail)


def _received(probe: socket.socket) -> bytes:
    try:
        return probe.recv(_CHUNK_BYTES)
    except ConnectionError:
        return b""


def _listen(probe: socket.socket, has_left: Event) -> None:
    """Pass on what the viewer says; once it has gone, or the probe has, end the connection to the probe."""
    try:
        while data := os.read(0, _CHUNK_BYTES):
            probe.sendall(data)
        has_left.set()
        probe.shutdown(socket.SHUT_RDWR)
    except OSError:  # the probe has gone: what it said last is still being passed on
        return


def _tell(**fields: str) -> None:
    _write(frames.encode({"type": RELAY, **fields}))


def _write(data: bytes) -> None:
    if sys.stdout is not None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

"""Frames: eight bytes of header (magic, length), then one JSON object. Standard library only, cheap to import."""

from __future__ import annotations

from struct import Struct

from gputui.protocol.tables import TableError, without_tables

VERSION = 5
"""Changes when a viewer and a probe no longer understand each other; the two `hello` messages never change."""

MAX_REQUEST_BYTES = 512 * 1024
"""The largest payload a viewer may send: about 50,000 objects to prove that a garbage collection would free them."""
MAX_REPLY_BYTES = 256 * 1024**2
"""The largest payload a probe may send: a map of about two million blocks."""
MAX_PARTS = 16_000_000
"""The most values in a payload: decoding turns a value of a few bytes into an object of a hundred."""

_HEADER = Struct(">4sI")
_MAGIC = b"gptu"
HEADER_BYTES = _HEADER.size


class FrameError(Exception):
    """The bytes that arrived are not a frame of this protocol; the text says why."""


def frame(payload: bytes) -> bytes:
    """`payload` with its header in front."""
    return header(len(payload)) + payload


def header(payload_bytes: int) -> bytes:
    """The header of a payload of that many bytes, which is sent separately."""
    return _HEADER.pack(_MAGIC, payload_bytes)


def encode(message: dict[str, object]) -> bytes:
    """One small message as a frame."""
    from json import dumps  # costs 6 ms, and most programs that load the probe are never looked at

    return frame(dumps(message, separators=(",", ":")).encode())


def decode(payload: bytes) -> dict[str, object]:
    """The message in a payload; raises FrameError unless it is a JSON object with a `type` and not too many values."""
    from json import loads

    if len(payload) > MAX_PARTS and sum(map(payload.count, b"[{,")) > MAX_PARTS:
        cause = f"more than {MAX_PARTS} values"
        raise FrameError(cause)
    try:
        message = loads(payload)
    except (ValueError, RecursionError) as error:
        cause = f"not JSON: {type(error).__name__}"
        raise FrameError(cause) from error
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        cause = "not a message: an object with a type is expected"
        raise FrameError(cause)
    try:
        return without_tables(message)
    except TableError as error:
        cause = "a table whose rows do not fit its columns"
        raise FrameError(cause) from error


class Unpacker:
    """Cuts a stream of bytes into payloads; holds at most one unfinished frame of at most `max_payload_bytes`."""

    def __init__(self, max_payload_bytes: int) -> None:
        self._max_payload_bytes = max_payload_bytes
        self._buffer = bytearray()

    @property
    def is_midway(self) -> bool:
        """Whether a frame has begun and is not complete."""
        return bool(self._buffer)

    @property
    def unfinished(self) -> bytes:
        """What has arrived of a frame that is not complete."""
        return bytes(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads that `data` completes; raises FrameError at the first bytes that cannot be a frame's header."""
        self._buffer += data
        payloads = []
        while (payload := self._next()) is not None:
            payloads.append(payload)
        return payloads

    def _next(self) -> bytes | None:
        if not self._buffer.startswith(_MAGIC[: len(self._buffer)]):
            cause = "not a frame of gputui"
            raise FrameError(cause)
        if len(self._buffer) < HEADER_BYTES:
            return None
        length: int = _HEADER.unpack_from(self._buffer)[1]
        if length > self._max_payload_bytes:
            cause = f"a frame of {length} bytes, {self._max_payload_bytes} are allowed"
            raise FrameError(cause)
        end = HEADER_BYTES + length
        if len(self._buffer) < end:
            return None
        payload = bytes(self._buffer[HEADER_BYTES:end])
        del self._buffer[:end]
        return payload

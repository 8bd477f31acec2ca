"""The file of a recording: a line with its version, then chunks, each compressed and checked on its own.

A chunk is compressed alone, not as a part of one stream: damage costs that chunk and no other, a crash the one that
was being written, and going to a time reads only what is needed. What repeats from look to look is left out before
(see `patch`), which saves more than a stream's window of 32 KiB could.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from gputui.protocol.frames import MAX_PARTS, MAX_REPLY_BYTES

VERSION = 1
FIRST_WORDS = b"gputui recording "
FIRST_LINE = FIRST_WORDS + b"%d\n" % VERSION
LONGEST_FIRST_LINE = 64

MAX_CONTENT_BYTES = MAX_REPLY_BYTES + 64 * 1024
"""The largest content of a chunk: what a probe may send at once, and what is said with it."""
MAX_PAYLOAD_BYTES = MAX_CONTENT_BYTES + MAX_CONTENT_BYTES // 1000 + 64
"""Compressed, it is never longer than by zlib's own thousandth."""

MAGIC = b"gpRc"
_HEADER = Struct(">4sBQIdI")
_SUM = Struct(">I")
HEADER_BYTES = _HEADER.size + _SUM.size


class ChunkKind(IntEnum):
    """What a chunk holds; chunks of kinds that a reader does not know are left out."""

    RECORDS = 1
    """What was heard and known, in order, of any process."""
    LOOK = 2
    """A look of one process, whole."""
    CHANGED_LOOK = 3
    """A look of one process, as what differs from the look before it."""


class DamagedError(Exception):
    """Bytes that are no chunk, or a chunk that is not what was written."""


@dataclass(frozen=True, slots=True)
class Header:
    """`time` is that of the first record, or of the look itself (epoch seconds).

    `pid` is 0 for records, unless one of them is a greeting. `number` counts the looks of a process from 1.
    """

    kind: int
    pid: int
    number: int
    time: float
    payload_bytes: int
    checksum: int


def write_chunk(kind: ChunkKind, pid: int, time: float, content: object, number: int = 0) -> bytes:
    """A chunk as it stands in the file; raises ValueError where the content is larger than a reader takes."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
    if len(text) > MAX_CONTENT_BYTES:
        reason = f"{len(text)} bytes in one chunk"
        raise ValueError(reason)
    payload = zlib.compress(text, 6)
    header = _HEADER.pack(MAGIC, kind, pid, number, time, len(payload))
    return header + _SUM.pack(zlib.crc32(payload, zlib.crc32(header))) + payload


def read_header(data: bytes) -> Header:
    """The header at the beginning of `data`; raises DamagedError."""
    if len(data) < HEADER_BYTES:
        raise DamagedError("not a whole header")
    magic, kind, pid, number, time, payload_bytes = _HEADER.unpack_from(data)
    if magic != MAGIC or payload_bytes > MAX_PAYLOAD_BYTES or not abs(time) < 1e12:  # neither is NaN
        raise DamagedError("not a header")
    return Header(kind, pid, number, time, payload_bytes, _SUM.unpack_from(data, _HEADER.size)[0])


def first_sum(data: bytes) -> int:
    """The checksum of a header's own fields, which that of the payload goes on from."""
    return zlib.crc32(data[: _HEADER.size])


def content_of(header_bytes: bytes, payload: bytes) -> object:
    """What a chunk holds; raises DamagedError. Text and number of values are bounded."""
    if zlib.crc32(payload, first_sum(header_bytes)) != read_header(header_bytes).checksum:
        raise DamagedError("its checksum is another")
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(payload, MAX_CONTENT_BYTES)
        if not unpacker.eof:
            raise DamagedError("more than a chunk may hold")
        if len(text) > MAX_PARTS and sum(map(text.count, (b"[", b"{", b","))) > MAX_PARTS:
            raise DamagedError("more values than a chunk may hold")
        content: object = json.loads(text)
    except (zlib.error, ValueError, RecursionError) as error:
        reason = f"its content cannot be read: {type(error).__name__}"
        raise DamagedError(reason) from error
    return content

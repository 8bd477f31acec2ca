"""The file of a recording: a line with its version, then chunks, each compressed and checked on its own.

Each chunk is compressed alone, not as a part of one stream: damage loses only that chunk, a crash only the one being
written, and a jump reads only what it needs. What repeats from look to look is left out before (see `patch`), which
saves more than the 32 KiB window of one stream could.
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
"""The largest content of a chunk: the largest message of a probe, and the record around it."""
MAX_PAYLOAD_BYTES = MAX_CONTENT_BYTES + MAX_CONTENT_BYTES // 1000 + 64
"""zlib makes data longer by a thousandth at most."""

INFLATED_PER_BYTE = 100
"""To how many bytes all chunks together may inflate for each byte of the file: real recordings reach 20."""
INFLATED_AT_LEAST = 2 * MAX_CONTENT_BYTES
"""To how many bytes the chunks of a small file may inflate."""

MAGIC = b"gpRc"
_HEADER = Struct(">4sBQIdI")
_SUM = Struct(">I")
HEADER_BYTES = _HEADER.size + _SUM.size


class ChunkKind(IntEnum):
    """What a chunk holds; readers skip chunks of unknown kinds."""

    RECORDS = 1
    """Records in order, of any process."""
    LOOK = 2
    """A whole look of one process."""
    CHANGED_LOOK = 3
    """A look of one process, as the difference from the look before."""


class DamagedError(Exception):
    """The bytes are no chunk, or a damaged one."""


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
    """The bytes of a chunk for the file; raises ValueError for content with NaN, or larger than a reader accepts."""
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
    """The checksum of a header's own fields, with which the checksum of the payload begins."""
    return zlib.crc32(data[: _HEADER.size])


def text_of(header_bytes: bytes, payload: bytes) -> bytes:
    """A chunk's content as text, of at most `MAX_CONTENT_BYTES`; raises DamagedError."""
    if zlib.crc32(payload, first_sum(header_bytes)) != read_header(header_bytes).checksum:
        raise DamagedError("its checksum does not match")
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(payload, MAX_CONTENT_BYTES)
    except zlib.error as error:
        raise DamagedError("its content cannot be inflated") from error
    if not unpacker.eof:
        raise DamagedError("more than a chunk may hold")
    return text


def content_of(text: bytes) -> object:
    """A chunk's content from its text; raises DamagedError, also for more than `MAX_PARTS` values."""
    try:
        if len(text) > MAX_PARTS and sum(map(text.count, (b"[", b"{", b","))) > MAX_PARTS:
            raise DamagedError("more values than a chunk may hold")
        content: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = f"its content cannot be read: {type(error).__name__}"
        raise DamagedError(reason) from error
    return content

"""Finds the chunks of a recording in one pass that reads and checks all bytes and keeps none of them."""

from __future__ import annotations

import time as clock
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from gputui.errors import GputuiError
from gputui.regular_files import open_regular
from gputui.sources.files.recording.chunks import (
    FIRST_LINE,
    FIRST_WORDS,
    HEADER_BYTES,
    LONGEST_FIRST_LINE,
    MAGIC,
    VERSION,
    DamagedError,
    Header,
    first_sum,
    read_header,
)

CHUNKS_AT_MOST = 1_000_000
"""Six days of one process; later chunks are not shown."""

TRIES_AT_MOST = 1000
"""How many places that look like a chunk are tried after damage: a hostile file can consist of nothing else."""

_PIECE_BYTES = 1024 * 1024
_NAME_ONE = "Name a recording made with `gputui attach PID --record FILE`."


class NoRecordingError(GputuiError):
    """A file that cannot be shown as a recording, with the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """A chunk in the file: the offset of its header, and the header."""

    offset: int
    header: Header


def open_file(path: Path) -> BinaryIO:
    """A recording, positioned after its first line; raises NoRecordingError if it is not one."""
    try:
        file = open_regular(path)
        try:
            first = file.readline(LONGEST_FIRST_LINE)
        except OSError:
            file.close()
            raise
    except OSError as error:
        cause = f"{path} cannot be read: {error.strerror}."
        is_another_path_needed = isinstance(error, (FileNotFoundError, NotADirectoryError, IsADirectoryError))
        raise NoRecordingError(cause, _NAME_ONE if is_another_path_needed else "") from None
    if first == FIRST_LINE:
        return file
    file.close()
    raise NoRecordingError(*_cause_and_remedy(path, first))


def _cause_and_remedy(path: Path, first: bytes) -> tuple[str, str]:
    if not first:
        return f"{path} is empty.", _NAME_ONE
    version = first.removeprefix(FIRST_WORDS).strip()
    if first.startswith(FIRST_WORDS) and version.isdigit() and int(version) > VERSION:
        return (
            f"{path} is a recording of version {int(version)}, and this gputui reads up to version {VERSION}.",
            "Update gputui.",
        )
    if FIRST_LINE.startswith(first):
        return f"{path} holds nothing: the recording was cut off in its first line.", _NAME_ONE
    return f"{path} is not a recording of gputui.", _NAME_ONE


def places_of(file: BinaryIO) -> tuple[list[ChunkPlace], list[str]]:
    """The intact chunks, and a sentence for each damage."""
    places: list[ChunkPlace] = []
    notices: list[str] = []
    at, size = file.tell(), _size_of(file)
    while at < size and len(places) < CHUNKS_AT_MOST:
        header = _whole_chunk(file, at, size)
        if header is None:
            next_at = next(
                (offset for offset in _candidates(file, at + 1, size) if _whole_chunk(file, offset, size)), None
            )
            notices.append(_damage(places, file, next_at, size))
            if next_at is None:
                break
            at = next_at
        else:
            places.append(ChunkPlace(at, header))
            at += HEADER_BYTES + header.payload_bytes
    return places, notices


def _damage(places: list[ChunkPlace], file: BinaryIO, next_at: int | None, size: int) -> str:
    before = _clock(places[-1].header.time) if places else "its beginning"
    if next_at is None:
        return f"The recording was cut off: what came after {before} is lost, usually less than a second."
    header = _whole_chunk(file, next_at, size)
    after = _clock(header.time) if header else "later"
    return f"The recording is damaged between {before} and {after}; everything before and after that is shown."


def _clock(time: float) -> str:
    return clock.strftime("%H:%M:%S", clock.localtime(time))


def _size_of(file: BinaryIO) -> int:
    at = file.tell()
    size = file.seek(0, 2)
    file.seek(at)
    return size


def _whole_chunk(file: BinaryIO, at: int, size: int) -> Header | None:
    """The header of the chunk at an offset, None if there is no intact one."""
    file.seek(at)
    data = file.read(HEADER_BYTES)
    try:
        header = read_header(data)
    except DamagedError:
        return None
    left = header.payload_bytes
    if at + HEADER_BYTES + left > size:
        return None
    checksum = first_sum(data)
    while left:
        piece = file.read(min(left, _PIECE_BYTES))
        if not piece:
            return None
        checksum = zlib.crc32(piece, checksum)
        left -= len(piece)
    return header if checksum == header.checksum else None


def _candidates(file: BinaryIO, at: int, size: int) -> Iterator[int]:
    """Offsets at which a chunk may begin."""
    tries = 0
    while at < size and tries < TRIES_AT_MOST:
        file.seek(at)
        piece = file.read(_PIECE_BYTES)
        place = piece.find(MAGIC)
        if place < 0:
            at += max(1, len(piece) - len(MAGIC) + 1)
        else:
            tries += 1
            yield at + place
            at += place + 1

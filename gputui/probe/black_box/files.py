"""Writes black boxes: complete or not at all, for their owner alone, and within the limits of the folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from time import localtime, strftime
from typing import Any
from zlib import compressobj

from gputui.probe.guards.originals import wall_clock
from gputui.probe.looks.messages import encode_in_pieces, with_table
from gputui.protocol import black_boxes, frames

_LEVEL = 1
"""zlib's fastest: a higher level takes three times as long for a tenth less."""
_UNFINISHED = ".unfinished"
_UNFINISHED_FOR_S = 3600.0
"""An unfinished file of this age belonged to a process that was killed while it wrote."""


class NotKeptError(Exception):
    """A black box could not be written; the text says why."""


def write(folder: str, program: str, number: int, messages: list[dict[str, Any]]) -> str:
    """Write the messages as a new black box and return its path; raises NotKeptError."""
    name = black_boxes.file_name(program, strftime("%Y%m%d-%H%M%S", localtime(wall_clock())), os.getpid(), number)
    path = os.path.join(folder, name)
    unfinished = os.path.join(folder, f".{name}{_UNFINISHED}")
    pieces = [black_boxes.FIRST_LINE, *_compressed(messages)]
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        _make_room(folder, sum(map(len, pieces)))
        _write_whole(unfinished, pieces)
        os.rename(unfinished, path)
    except OSError as error:
        remove(unfinished)
        raise NotKeptError(f"{error.filename or path}: {error.strerror}") from error
    return path


def append(path: str, message: dict[str, Any]) -> None:
    """Add a message to a finished black box, in one write; harmless if the file has gone or the disk is full."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(descriptor, b"".join(_compressed([message])))
    except OSError:
        pass
    finally:
        os.close(descriptor)


def remove(path: str) -> None:
    """Remove a file, if it is still there and may be removed."""
    try:
        os.unlink(path)
    except OSError:
        pass


def _compressed(messages: list[dict[str, Any]]) -> list[bytes]:
    packer = compressobj(_LEVEL)
    pieces = []
    for message in messages:
        encoded = encode_in_pieces(with_table(message))
        size = sum(map(len, encoded))
        if size > frames.MAX_REPLY_BYTES:
            raise NotKeptError(f"the look has {size} bytes, and a black box holds at most {frames.MAX_REPLY_BYTES}")
        pieces.append(packer.compress(frames.header(size)))
        pieces += map(packer.compress, encoded)
    pieces.append(packer.flush())
    return pieces


def _write_whole(path: str, pieces: list[bytes]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_room(folder: str, size_bytes: int) -> None:
    """Remove the oldest black boxes, so that one more of this size stays within the limits."""
    kept = sorted(_kept(folder))
    total = size_bytes + sum(size for _, size, _ in kept)
    while kept and (len(kept) >= black_boxes.FILES_AT_MOST or total > black_boxes.BYTES_AT_MOST):
        _, size, path = kept.pop(0)
        total -= size
        remove(path)
    if total > black_boxes.BYTES_AT_MOST:
        raise NotKeptError(f"it has {size_bytes} bytes, and {folder} keeps at most {black_boxes.BYTES_AT_MOST}")


def _kept(folder: str) -> Iterator[tuple[float, int, str]]:
    """For each black box in the folder: when it was written, bytes, path. Removes files that killed processes left."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        is_unfinished = name.startswith(".") and name.endswith(f"{black_boxes.SUFFIX}{_UNFINISHED}")
        if not (is_unfinished or black_boxes.is_name(name)):
            continue
        try:
            status = os.lstat(path)
        except OSError:  # another process has removed it
            continue
        if not is_unfinished and stat.S_ISREG(status.st_mode):
            yield status.st_mtime, status.st_size, path
        elif is_unfinished and status.st_mtime < wall_clock() - _UNFINISHED_FOR_S:
            remove(path)

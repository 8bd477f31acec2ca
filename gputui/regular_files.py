"""Opening files that a user has named, or that lie where others may write: no pipe is waited for, no device read."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import BinaryIO


def open_regular(path: str | os.PathLike[str], *, buffering: int = -1) -> BinaryIO:
    """A file for reading; raises OSError for anything but a regular file, and waits for no other end of a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(mode) and not _is_nothing(descriptor):
            raise OSError(errno.EINVAL, "it is a pipe, a socket or a device, and no file", os.fspath(path))
        return os.fdopen(descriptor, "rb", buffering)
    except BaseException:
        os.close(descriptor)
        raise


def _is_nothing(descriptor: int) -> bool:
    """Whether this is /dev/null, by which a user names an empty file."""
    with suppress(OSError):
        return os.fstat(descriptor).st_rdev == os.stat(os.devnull).st_rdev  # noqa: PTH116 - pathlib takes milliseconds
    return False


def small_content(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """All that is in a small file; raises OSError if that is more than `most_bytes`."""
    with open_regular(path) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes // 1024} KiB", os.fspath(path))
    return data

"""Opens files that a user named, or that lie where others may write, without waiting for a pipe or reading a device."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

_NULL_DEVICE = os.makedev(1, 3)
"""/dev/null, which is as good as an empty file: GPUTUI_CONFIG=/dev/null means no settings."""


def open_regular(path: str | os.PathLike[str], *, buffering: int = -1) -> BinaryIO:
    """A file for reading; raises OSError for anything but a regular file, and waits for no other end of a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        mode = status.st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(mode) and not (stat.S_ISCHR(mode) and status.st_rdev == _NULL_DEVICE):
            raise OSError(errno.EINVAL, "it is a pipe, a socket or a device, and no file", os.fspath(path))
        return os.fdopen(descriptor, "rb", buffering)
    except BaseException:
        os.close(descriptor)
        raise


def small_content(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """All that is in a small file; raises OSError if that is more than `most_bytes`."""
    with open_regular(path) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes // 1024} KiB", os.fspath(path))
    return data

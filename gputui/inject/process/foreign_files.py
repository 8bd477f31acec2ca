"""Opens folders below the root of another process, whose user may have put links, pipes or files of others there.

A path is followed in that root alone, step by step: no link and no `..` leads out of it, on any kernel. (`openat2` with
RESOLVE_IN_ROOT does the same, but is missing before Linux 5.6 and in many sandboxes.) A folder is held open, so that
what was checked is what is used.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

_LINKS_AT_MOST = 40
"""As many as Linux follows in one path."""
_DEEPEST = 64
_LONGEST_PATH = 4096
_NAMES_AT_MOST = 10_000
_PATH_ONLY = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class ForeignFolder:
    """What a process finds at `path`, its own name for it, held open. Raises OSError as the kernel does.

    If the last part of the path is a link, `status` is that of the link, unless `is_link_followed`.
    """

    def __init__(self, root: str, path: str, *, is_link_followed: bool = False) -> None:
        self.path = path
        self._descriptor = _opened(root, f"{path}/." if is_link_followed else path)
        self.status = os.fstat(self._descriptor)

    def __enter__(self) -> ForeignFolder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder's descriptor; harmless if it is closed."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def names(self) -> list[str]:
        """The names in the folder, at most `_NAMES_AT_MOST`."""
        listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._descriptor)
        try:
            with os.scandir(listed) as entries:
                return [entry.name for entry, _ in zip(entries, range(_NAMES_AT_MOST), strict=False)]
        finally:
            os.close(listed)

    @contextmanager
    def socket(self, name: str) -> Iterator[str]:
        """A path by which to connect to a socket of the owner in the folder; FileNotFoundError if there is none."""
        descriptor = os.open(name, _PATH_ONLY, dir_fd=self._descriptor)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISSOCK(status.st_mode) or status.st_uid != self.status.st_uid:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)

    def opened(self, name: str) -> int:
        """A descriptor to read a regular file in the folder; FileNotFoundError if there is none."""
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._descriptor)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return descriptor

    def create(self, name: str) -> int:
        """A descriptor of a new file in the folder, for its user alone."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, 0o600, dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        """Remove a file from the folder."""
        os.unlink(name, dir_fd=self._descriptor)


def root_of(pid: int) -> str:
    """The root of a process: the kernel's own link, which no user can change."""
    return f"/proc/{pid}/root"


def has_same_root(pid: int) -> bool:
    """Whether a process sees files under the same paths as this one, if it has the same mount namespace."""
    try:
        return _identity(root_of(pid)) == _identity("/")
    except OSError:
        return True


def has_same_files(pid: int) -> bool:
    """Whether a process finds the same files as this one under the same paths; raises OSError if that is not known."""
    return os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt") and has_same_root(pid)


def _identity(root: str) -> tuple[bytes, int]:
    """The mount and the inode of a root: a bind mount of it elsewhere has the same inode."""
    descriptor = os.open(root, os.O_PATH | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", "rb") as file:
            return next((line for line in file if line.startswith(b"mnt_id")), b""), os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)


def _opened(root: str, path: str) -> int:
    """A descriptor of what is at a path of a root; folders on the way are held open, so that `..` goes back to one."""
    _check_length(path)
    passed = [os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]
    names, links = path.split("/")[::-1], 0
    try:
        while names:
            name = names.pop()
            if name == ".." and len(passed) > 1:
                os.close(passed.pop())
            if name in ("", ".", ".."):
                continue
            passed.append(os.open(name, _PATH_ONLY, dir_fd=passed[-1]))
            if names and stat.S_ISLNK(os.fstat(passed[-1]).st_mode):
                target = os.readlink("", dir_fd=passed[-1])
                _close(passed, 1 if target.startswith("/") else len(passed) - 1)
                names += target.split("/")[::-1]
                links += 1
                _check_length("/".join(names))
            if links > _LINKS_AT_MOST or len(passed) > _DEEPEST:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return os.dup(passed[-1])
    finally:
        _close(passed, 0)


def _check_length(path: str) -> None:
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))


def _close(descriptors: list[int], kept: int) -> None:
    while len(descriptors) > kept:
        os.close(descriptors.pop())

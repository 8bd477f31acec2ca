"""The probe's sockets and files in a program that may close every descriptor, and reuse the numbers for its own."""

from __future__ import annotations

import _socket
import errno
import os
import sys

TYPE_CHECKING = False  # `typing` and `collections.abc` cost more to import than all of this
if TYPE_CHECKING:
    from collections.abc import Callable

SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""The program or the machine has no descriptor or memory left for the probe at this moment."""
_SO_COOKIE = 57
"""Socket option of Linux 4.12 and newer: a number that no other socket gets until the machine is restarted."""


class NotOursError(Exception):
    """The program has closed our descriptors: their numbers may be its own files by now."""

    def __init__(self) -> None:
        super().__init__("the program has closed the probe's file descriptors")


class Descriptor:
    """Tells whether a socket's descriptor number still stands for that socket.

    Ask right before each use. `getsockopt` asks the kernel without releasing the interpreter's lock, so no other thread
    can close the socket between answer and use; `os.fstat` releases it, and its answer may be outdated.
    """

    def __init__(self, socket: _socket.socket) -> None:
        self._socket = socket
        self._cookie = _cookie_of(socket)

    @property
    def is_ours(self) -> bool:
        """Whether the number still stands for the socket that was opened."""
        return self._cookie is not None and _cookie_of(self._socket) == self._cookie

    def check(self) -> None:
        """Raise NotOursError unless the number still stands for the socket that was opened."""
        if not self.is_ours:
            raise NotOursError

    def close(self) -> None:
        """Close the socket, unless its number is somebody else's by now."""
        is_ours, descriptor = self.is_ours, self._socket.detach()
        if is_ours:
            _close(descriptor)


_MOST_BYTES = 65_536


def read_file(path: str) -> bytes:
    """The first 64 KiB of a file in /proc, b"" if the program closes it meanwhile; OSError where it cannot be read."""
    descriptor = open_file(path)
    try:
        return os.read(descriptor, _MOST_BYTES) if _is_our_file(descriptor) else b""
    finally:
        close_file(descriptor)


def open_file(path: str) -> int:
    """Open with O_NONBLOCK, by which `close_file` knows the file: the program opens ordinary files without it."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)


def close_file(descriptor: int) -> None:
    """Close what `open_file` has opened, unless the number is somebody else's by now."""
    if _is_our_file(descriptor):
        _close(descriptor)


def _is_our_file(descriptor: int) -> bool:
    """Whether `open_file` has opened this file. `os.get_blocking` does not release the interpreter's lock."""
    try:
        return not os.get_blocking(descriptor)
    except OSError:  # closed
        return False


_native_close: Callable[[int], int] | None = None


def _close(descriptor: int) -> None:
    """`close(2)`; once the program or the probe uses ctypes, without releasing the interpreter's lock before the call.

    `os.close` releases that lock first: another thread could then close the descriptor and open a file with its number.
    """
    global _native_close  # noqa: PLW0603 (made once, as each new function object would be cyclic garbage)
    library = getattr(sys.modules.get("ctypes"), "pythonapi", None)
    if _native_close is None and library is not None:
        _native_close = library["close"]  # by item: a function object of our own
    if _native_close is None:
        os.close(descriptor)
    else:
        _native_close(descriptor)


def _cookie_of(socket: _socket.socket) -> object:
    try:
        return socket.getsockopt(_socket.SOL_SOCKET, _SO_COOKIE, 8)
    except OSError as error:
        if error.errno != errno.ENOPROTOOPT:
            return None  # closed, or not a socket
    status = os.fstat(socket.fileno())  # an older kernel
    return status.st_dev, status.st_ino


def forget_cached_folders() -> None:
    """Have the import system list its folders again: one whose descriptor was closed meanwhile is cached as empty."""
    for finder in list(sys.path_importer_cache.values()):
        if finder is not None and hasattr(finder, "invalidate_caches"):
            finder.invalidate_caches()

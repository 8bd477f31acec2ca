"""Sockets of ours in a program that may close every number it finds, and get ours for files of its own."""

from __future__ import annotations

import _socket
import errno
import os

_SO_COOKIE = 57
"""Linux, since 4.12: a number that no other socket ever gets, until the machine starts again."""


class NotOursError(Exception):
    """The program has closed our descriptors: their numbers may be its own files by now."""

    def __init__(self) -> None:
        super().__init__("the program has closed the probe's file descriptors")


class Descriptor:
    """A socket, and how to tell that what is behind its number is still what we opened.

    To be asked right before each use. The question is one that Python asks the kernel without giving the interpreter to
    another thread: the answer to `os.fstat` may be as old as that thread likes, which can have closed and opened files.
    """

    def __init__(self, socket: _socket.socket) -> None:
        self._socket = socket
        self._cookie = _cookie_of(socket)

    @property
    def is_ours(self) -> bool:
        """Whether the number still stands for what we opened."""
        return self._cookie is not None and _cookie_of(self._socket) == self._cookie

    def check(self) -> None:
        """Raise NotOursError where the number does not stand for what we opened any more."""
        if not self.is_ours:
            raise NotOursError

    def close(self) -> None:
        """Close it, unless it is somebody else's."""
        if self.is_ours:
            self._socket.close()
        else:
            self._socket.detach()


def _cookie_of(socket: _socket.socket) -> object:
    try:
        return socket.getsockopt(_socket.SOL_SOCKET, _SO_COOKIE, 8)
    except OSError as error:
        if error.errno != errno.ENOPROTOOPT:
            return None  # closed, or no socket at all
    status = os.fstat(socket.fileno())  # an older kernel
    return status.st_dev, status.st_ino

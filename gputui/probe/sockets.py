"""The probe's socket: in a folder of the user's own, named by process, with what dead processes left cleared away."""

from __future__ import annotations

import _socket  # `socket` wraps it in enums and costs 7 ms
import errno
import os

from gputui.probe.descriptors import Descriptor
from gputui.protocol import places

_BACKLOG = 8
_IS_SHORT_OF = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class ShortageError(Exception):
    """The program or the machine has no descriptor or memory left for a viewer, who waits meanwhile."""


class Listener:
    """The listening socket with its file."""

    def __init__(self, socket: _socket.socket, path: str) -> None:
        self._socket = socket
        self._descriptor = Descriptor(socket)
        self.path = path

    def fileno(self) -> int:
        """What to poll on."""
        return self._socket.fileno()

    def check(self) -> None:
        """Raise NotOursError where the program has closed the socket."""
        self._descriptor.check()

    def accept(self) -> _socket.socket | None:
        """The next viewer, not blocking and closed on exec; None where it has gone away again.

        Raises ShortageError, and NotOursError where the program has closed the socket.
        """
        self.check()
        try:
            fd, _ = self._socket._accept()  # type: ignore[attr-defined]  # `socket.accept` is made of it
        except OSError as error:
            if error.errno in _IS_SHORT_OF:
                raise ShortageError from error
            return None
        connection = _socket.socket(fileno=fd)
        connection.setblocking(False)
        return connection

    def close(self) -> None:
        """Listen no more; the file stays."""
        self._descriptor.close()


def listen() -> Listener:
    """A listening socket; raises OSError, its text a sentence, where there is no safe place for it."""
    folder = _own_folder()
    _clear_stale(folder)
    name = places.socket_name(os.getpid(), places.started_at("self") or 0)
    path = f"{folder}/{name}"
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        remove(path)
        listener.bind(path)  # by its own name: cleaners of /tmp spare what the kernel knows by its path
        listener.listen(_BACKLOG)
        os.chmod(path, 0o600)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return Listener(listener, path)


def is_allowed(connection: _socket.socket) -> bool:
    """Whether the process at the other end belongs to the same user, or to root."""
    credentials = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], "little") in (os.geteuid(), 0)


def remove(path: str) -> None:
    """Remove a socket's file, if it is there and still ours to remove: the program may have become another user."""
    try:
        os.unlink(path)
    except OSError:
        pass


def _own_folder() -> str:
    folder = places.folder_of(os.geteuid(), os.environ.get("XDG_RUNTIME_DIR"))
    try:
        return _made_safe(folder)
    except OSError as error:
        if error.errno is None:  # it is there and cannot be trusted
            raise
        return _made_safe(places.folder_of(os.geteuid(), None))  # a runtime folder of a session that has ended


def _made_safe(folder: str) -> str:
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    fault = places.fault_of_folder(folder, os.geteuid())
    if fault:
        cause = f"{fault}: remove it, or set XDG_RUNTIME_DIR to a folder of your own"
        raise OSError(cause)
    return folder


def _clear_stale(folder: str) -> None:
    for name in os.listdir(folder):
        process = places.process_of_name(name)
        if process and places.started_at(process[0]) != process[1] and places.is_dead(f"{folder}/{name}"):
            remove(f"{folder}/{name}")

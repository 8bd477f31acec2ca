"""The probe's socket: in a folder of the user's own, named by process, with what dead processes left cleared away."""

from __future__ import annotations

import _socket  # `socket` wraps it in enums and costs 7 ms
import os

from gputui.protocol import places

_BACKLOG = 8


def listen() -> tuple[_socket.socket, str]:
    """A listening socket and its path; raises OSError, its text a sentence, where there is no safe place for it."""
    folder = _own_folder()
    _clear_stale(folder)
    name = places.socket_name(os.getpid(), places.started_at("self") or 0)
    path, unfinished = f"{folder}/{name}", f"{folder}/{name}.new"
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        remove(unfinished)
        listener.bind(unfinished)
        os.chmod(unfinished, 0o600)
        listener.listen(_BACKLOG)
        os.rename(unfinished, path)  # whoever sees the name finds it listening: none is taken for dead
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener, path


def accept(listener: _socket.socket) -> _socket.socket | None:
    """The next viewer, not blocking and closed on exec; None where it has gone away again."""
    try:
        fd, _ = listener._accept()  # type: ignore[attr-defined]  # `socket.accept` is made of it
    except OSError:
        return None
    connection = _socket.socket(fileno=fd)
    connection.setblocking(False)
    return connection


def is_allowed(connection: _socket.socket) -> bool:
    """Whether the process at the other end belongs to the same user, or to root."""
    credentials = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], "little") in (os.geteuid(), 0)


def remove(path: str) -> None:
    """Remove a socket's file, if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _own_folder() -> str:
    folder = places.folder_of(os.geteuid(), os.environ.get("XDG_RUNTIME_DIR"))
    try:
        return _made_safe(folder)
    except (FileNotFoundError, PermissionError, NotADirectoryError):
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

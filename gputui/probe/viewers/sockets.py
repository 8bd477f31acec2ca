"""The probe's socket, whose file is in the user's own folder; removes the files that dead processes have left there."""

from __future__ import annotations

import _socket  # `socket` wraps it in enums and costs 7 ms
import os

from gputui import __version__
from gputui.probe.guards.descriptors import SHORTAGES, Descriptor
from gputui.protocol import frames, places

_BACKLOG = 8


class ShortageError(Exception):
    """The program or the machine has no descriptor or memory left for another viewer, which has to wait."""


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
        """Raise NotOursError if the program has closed the socket."""
        self._descriptor.check()

    def accept(self) -> _socket.socket | None:
        """The next viewer's socket, non-blocking and closed on exec; None if that viewer has gone again.

        Raises ShortageError, and NotOursError if the program has closed the listening socket.
        """
        self.check()
        try:
            fd, _ = self._socket._accept()  # type: ignore[attr-defined]  # `socket.accept` uses it
        except OSError as error:
            if error.errno in SHORTAGES:
                raise ShortageError from error
            return None
        try:
            connection = _socket.socket(fileno=fd)
        except BaseException:  # an audit hook's, for example
            os.close(fd)
            raise
        connection.setblocking(False)
        return connection

    def refuse(self, reason: str) -> None:
        """Tell the waiting viewers why nobody serves them, and disconnect them."""
        # Not by `json`: it may be what cannot be imported.
        printable = "".join(letter if letter.isprintable() and letter not in '"\\' else "?" for letter in reason)
        words = f'{{"type":"refused","protocol":{frames.VERSION},"gputui":"{__version__}","reason":"{printable}"}}'
        while (connection := self.accept()) is not None:
            if is_allowed(connection):
                connection.send(frames.frame(words.encode(errors="replace")), _socket.MSG_NOSIGNAL)
            connection.close()

    def close(self) -> None:
        """Stop listening; the file stays."""
        self._descriptor.close()


def listen() -> Listener:
    """A listening socket; raises OSError, with a sentence as its text if the folder cannot be trusted."""
    folder = _socket_folder()
    _clear_stale(folder)
    path = f"{folder}/{places.socket_name(os.getpid(), _started())}"
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        remove(path)
        listener.bind(path)  # not renamed afterwards: cleaners of /tmp keep the paths that /proc/net/unix lists
        listener.listen(_BACKLOG)
        os.chmod(path, 0o600)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return Listener(listener, path)


def _started() -> int:
    """When this process started, by which viewers find its socket; 0 without /proc, which the viewers take as well."""
    started = places.started_at("self")
    if started is None and os.path.exists("/proc/self/stat"):
        raise OSError("/proc/self/stat cannot be read, and viewers find the probe by the start time in it")
    return started or 0


def is_allowed(connection: _socket.socket) -> bool:
    """Whether the process at the other end belongs to the same user, or to root."""
    credentials = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], "little") in (os.geteuid(), 0)


def remove(path: str) -> None:
    """Remove a socket's file if it is there, and if we still may: the program may have changed its user."""
    try:
        os.unlink(path)
    except OSError:
        pass


def _socket_folder() -> str:
    """The first folder in which files can be made; raises OSError if there is none, or if one cannot be trusted."""
    uid = os.geteuid()
    wanted = places.folder_of(uid, os.environ.get("XDG_RUNTIME_DIR"))
    for folder in (wanted, places.folder_of(uid, None), places.folder_in_memory(uid)):
        trouble = _trouble_of(folder)
        if trouble is None:
            return folder
    raise OSError(f"no socket can be made in {os.path.dirname(wanted)}, /tmp or /dev/shm ({trouble})")


def _trouble_of(folder: str) -> str | None:
    """Why no file can be made in a folder, as in $XDG_RUNTIME_DIR of a session that has ended; None if one can."""
    try:
        _create_safely(folder)
    except OSError as error:
        if error.errno is None:  # the folder is there and cannot be trusted
            raise
        return error.strerror
    is_of_another = os.geteuid() != os.getuid()  # otherwise plainly: older containers refuse the newer system call
    return None if os.access(folder, os.W_OK, effective_ids=is_of_another) else "not writable"


def _create_safely(folder: str) -> None:
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    fault = places.fault_of_folder(folder, os.geteuid())
    if fault:
        cause = f"{fault}: remove it, or set XDG_RUNTIME_DIR to a folder of your own"
        raise OSError(cause)


def _clear_stale(folder: str) -> None:
    for name in os.listdir(folder):
        process = places.process_of_name(name)
        if process and places.started_at(process[0]) != process[1] and places.is_dead(f"{folder}/{name}"):
            remove(f"{folder}/{name}")

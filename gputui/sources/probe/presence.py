"""Tells which processes have a probe, cheaply enough for every look: folders are listed only when they change."""

from __future__ import annotations

import os

from gputui.protocol import places


class ProbePresence:
    """Finds the sockets of this user's probes; a dead process counts until the file of its socket is removed."""

    def __init__(self) -> None:
        self._uid = os.geteuid()
        self._folders = places.folders_of(self._uid, os.environ.get("XDG_RUNTIME_DIR"))
        self._changed: tuple[int, ...] = ()
        self._pids: frozenset[int] = frozenset()

    def __call__(self) -> frozenset[int]:
        """The PIDs of the processes that have a socket; the folders are listed again if one has changed."""
        changed = tuple(_changed_at(folder, self._uid) for folder in self._folders)
        if changed != self._changed:
            try:
                self._pids = frozenset(
                    pid for folder, at in zip(self._folders, changed, strict=True) if at for pid in _pids_in(folder)
                )
            except OSError:  # gputui is out of file descriptors, for example: tried again at the next look
                return self._pids
            self._changed = changed
        return self._pids


def _changed_at(folder: str, uid: int) -> int:
    """When a folder was last changed (ns); 0 if it does not exist, or another user can write to it."""
    try:
        status = os.lstat(folder)
    except OSError:
        return 0
    return 0 if places.fault_of(status, uid, folder) else status.st_mtime_ns


def _pids_in(folder: str) -> list[int]:
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    return [process[0] for name in names if (process := places.process_of_name(name))]

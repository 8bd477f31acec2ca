"""Which processes have a probe, cheap enough for every look: folders are listed only when they have changed."""

from __future__ import annotations

import os

from gputui.model.reading import Reading
from gputui.protocol import places


class ProbePresence:
    """The sockets of this user's probes; that of a dead process counts until its file is removed."""

    def __init__(self) -> None:
        uid = os.geteuid()
        runtime_dirs = (os.environ.get("XDG_RUNTIME_DIR"), f"/run/user/{uid}", None)
        self._folders = tuple(dict.fromkeys(places.folder_of(uid, each) for each in runtime_dirs))
        self._changed: tuple[int, ...] = ()
        self._pids: frozenset[int] = frozenset()

    def __call__(self, pid: int, _user: Reading[str]) -> bool:
        """Whether a process has a socket; the folders are listed again if one has changed."""
        changed = tuple(_changed_at(folder) for folder in self._folders)
        if changed != self._changed:
            self._changed = changed
            self._pids = frozenset(pid for folder in self._folders for pid in _pids_in(folder))
        return pid in self._pids


def _changed_at(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _pids_in(folder: str) -> list[int]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [process[0] for name in names if (process := places.process_of_name(name))]

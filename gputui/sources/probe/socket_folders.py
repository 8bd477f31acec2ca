"""The folders in which probes have their sockets, also those of other users: what is in them is not trusted."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress

from gputui.inject.process.foreign_files import ForeignFolder
from gputui.protocol import frames, places
from gputui.sources.probe.client import ANSWER_WITHIN_S, ProbeClient, ProbeDeadError
from gputui.sources.procfs import ProcFs

_ANSWERS_NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG)
"""Errors of a path that its user can cause on purpose: they count as if there were no socket."""


def opened(path: str, root: str = "/") -> ForeignFolder | None:
    """The folder at a path below `root`, None if it cannot be reached; raises OSError for other trouble."""
    try:
        return ForeignFolder(root, path)
    except OSError as error:
        if error.errno not in _ANSWERS_NOTHING:
            raise
        return None


def fault_of(folder: ForeignFolder, owner: int) -> str | None:
    """Why a folder must not be trusted to hold the sockets of a user, as a sentence without a full stop."""
    return places.fault_of(folder.status, owner, folder.path)


def connected(
    folder: ForeignFolder,
    name: str,
    pid: int,
    most_bytes: int = frames.MAX_REPLY_BYTES,
    answer_within_s: float = ANSWER_WITHIN_S,
) -> ProbeClient | None:
    """A connection to the probe at a socket, None if there is none; removes the file if nobody listens any more."""
    with suppress(FileNotFoundError), folder.socket(name) as path:
        try:
            return ProbeClient(path, pid, most_bytes, answer_within_s)
        except ProbeDeadError:
            _remove_if_unheard(folder, name, path)
    return None


def living(folder: ForeignFolder) -> Iterator[tuple[int, str]]:
    """PID and name of each socket in a folder whose process lives; removes the sockets of processes that have ended."""
    for name in sorted(folder.names()):
        process = places.process_of_name(name)
        if process is None:
            continue
        if places.started_at(process[0]) == process[1]:
            yield process[0], name
        else:  # the process can be alive in another container, where it has this PID
            with suppress(OSError), folder.socket(name) as path:
                _remove_if_unheard(folder, name, path)


def _remove_if_unheard(folder: ForeignFolder, name: str, path: str) -> None:
    if places.is_unheard(path, name):
        with suppress(OSError):
            folder.remove(name)


def usual_folders() -> list[tuple[str, int]]:
    """The folders with sockets, each with the user who must own it: this user's, for root those of all users."""
    own = os.geteuid()
    folders = dict.fromkeys(places.folders_of(own, os.environ.get("XDG_RUNTIME_DIR")), own)
    for uid in _users_with_processes() if own == 0 else ():
        folders |= dict.fromkeys(places.folders_of(uid, None), uid)
    return list(folders.items())


def _users_with_processes() -> set[int]:
    """The owners of the folders in /proc; where that is root, of the process: it may have changed its user."""
    proc, users = ProcFs(), set()
    for pid in proc.pids():
        with suppress(OSError):  # it has ended, or is a thread of the kernel's, which has no program
            uid = os.stat(f"/proc/{pid}").st_uid
            users.add(uid if uid or not proc.link(pid, "exe") else proc.status(pid).uid)
    return users

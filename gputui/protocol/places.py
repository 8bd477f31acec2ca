"""The paths of sockets: `<folder>/<pid>-<start time>.sock`, in the user's own folder."""

from __future__ import annotations

import _socket  # `socket` wraps it in enums and costs 7 ms
import os
import stat

MAX_SOCKET_PATH_BYTES = 107
"""The size of `sun_path` without its terminating zero."""


def folder_of(uid: int, runtime_dir: str | None) -> str:
    """The folder of a user's sockets: in `$XDG_RUNTIME_DIR` if that is set and short enough, otherwise in /tmp.

    If no file can be made in either, as in a container that may not write, the probe takes `folder_in_memory`.
    """
    in_runtime_dir = f"{runtime_dir}/gputui"
    longest_name = len("/.4194304-18446744073709551615.sock")
    if (
        runtime_dir
        and runtime_dir[0] == "/"
        and len(os.fsencode(in_runtime_dir)) + longest_name <= MAX_SOCKET_PATH_BYTES
    ):
        return in_runtime_dir
    return f"/tmp/gputui-{uid}"


def folder_in_memory(uid: int) -> str:
    """The last resort for a user's sockets: containers that may not write anywhere else have this folder."""
    return f"/dev/shm/gputui-{uid}"


def folders_of(uid: int, runtime_dir: str | None) -> list[str]:
    """All folders in which a user's sockets can be, whatever `$XDG_RUNTIME_DIR` the program was started with."""
    folders = [folder_of(uid, base) for base in (runtime_dir, f"/run/user/{uid}", None)]
    return list(dict.fromkeys((*folders, folder_in_memory(uid))))


def fault_of_folder(folder: str, uid: int, shown_as: str | None = None) -> str | None:
    """Why a folder must not be trusted, as a sentence without a full stop, or None; raises OSError if it is missing.

    `shown_as` is what the sentence calls the folder, by default its path.
    """
    return fault_of(os.lstat(folder), uid, folder if shown_as is None else shown_as)


def fault_of(status: os.stat_result, uid: int, name: str) -> str | None:
    """The same from the status of a folder, which the sentence calls `name`."""
    if not stat.S_ISDIR(status.st_mode):
        return f"{name} is not a folder"
    if status.st_uid != uid:
        return f"{name} belongs to user {status.st_uid} and not to {uid}"
    if status.st_mode & 0o077:
        return f"{name} is open to other users (mode {stat.S_IMODE(status.st_mode):o})"
    return None


def socket_name(pid: int, started: int) -> str:
    """The name of a process's socket; `started` is its start time in clock ticks since boot."""
    return f"{pid}-{started}.sock"


def process_of_name(name: str) -> tuple[int, int] | None:
    """PID and start time from a socket's name; None for any other file."""
    stem, extension = os.path.splitext(name)
    pid, _, started = stem.partition("-")
    if extension == ".sock" and pid.isdecimal() and started.isdecimal():
        return int(pid), int(started)
    return None


def started_at(pid: int | str) -> int | None:
    """When a process started, in clock ticks since boot (field 22 of /proc/PID/stat); None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # the command's name in parentheses may contain anything
    except OSError:
        return None
    return int(fields[19])


def is_dead(path: str) -> bool:
    """Whether no process listens at a socket's file any more. Unlike /proc, this works across PID namespaces.

    A socket that was bound a moment ago may not listen yet. It is not dead: the kernel lists its name.
    """
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return False
    except OSError:
        return False  # gone
    return is_unheard(path, os.path.basename(path))


def is_unheard(path: str, name: str) -> bool:
    """The same for a file that is known to be a socket, and was bound under `name`."""
    attempt = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        attempt.setblocking(False)
        attempt.connect(path)
    except ConnectionRefusedError:
        return not is_bound(name)
    except OSError:
        return False  # gone, its backlog is full, or we may not connect
    finally:
        attempt.close()
    return False


def is_bound(name: str, pid: int | str = "self") -> bool:
    """Whether a socket of that name exists in the network namespace of a process, even if its file was removed."""
    try:
        with open(f"/proc/{pid}/net/unix", "rb") as file:
            return any(line.rstrip().endswith(os.fsencode(f"/{name}")) for line in file)
    except OSError:
        return False

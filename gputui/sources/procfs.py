"""Linux's /proc, read cheaply, with errors that say whose process it was; `procfs_formats` parses the files.

It exists beside psutil for what psutil does not have (what a process waits for, its PID in other namespaces, that
hidepid hides it) and because a look at a thousand processes with psutil takes several times as long.
"""

from __future__ import annotations

import errno
import functools
import os
import pwd
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from gputui.model.printable import printable
from gputui.model.reading import Absent, Reading
from gputui.sources.procfs_formats import (
    Mapping,
    Rollup,
    Stat,
    Status,
    StorageTraffic,
    SystemCall,
    parse_boot_time,
    parse_driver_version,
    parse_environment,
    parse_exit,
    parse_io,
    parse_maps,
    parse_rollup,
    parse_stat,
    parse_status,
    parse_system_call,
)

T = TypeVar("T")

PID_MAX = 4_194_304
"""PID_MAX_LIMIT of Linux's include/linux/threads.h: no process has a higher PID."""

EMPTY = "/proc is empty, so nothing is known of the processes here."
MOUNT = "Mount it: mount -t proc proc /proc"
ENDED = Absent("the process has ended")
NOT_OFFERED = Absent("not offered by this kernel")
SECOND_LOOK = Absent("known from the second look on")

_CHUNK_BYTES = 65536
_MOST_BYTES = 64 << 20
"""Bound for files that the kernel keeps small, but for a process's mappings, which can have 65,530 long paths."""

COMMAND_BYTES = 4096
"""How much of a command line is read for lists: thousands of processes can have megabytes each."""
DETAIL_BYTES = 131_072
"""How much of a command line and of an environment is read at all."""


class MalformedError(OSError):
    """A file of /proc that does not have Linux's format, as under a sandbox that imitates Linux."""


class ProcFs:
    """The processes under one /proc. Methods raise OSError as the kernel does, unless they say otherwise."""

    def __init__(self, root: str | os.PathLike[str] = "/proc") -> None:
        self.root = os.fspath(root)
        self._prefix = f"{self.root}/"

    @property
    def is_empty(self) -> bool:
        """Whether /proc is not mounted; mounted with `subset=pid` it has `self` but no `stat`."""
        return not (os.path.exists(f"{self._prefix}self") or os.path.exists(f"{self._prefix}stat"))

    def pids(self) -> list[int]:
        """All PIDs that this user may see."""
        with os.scandir(self._prefix) as entries:
            return [int(entry.name) for entry in entries if entry.name.isdigit()]

    def stat(self, pid: int) -> Stat | None:
        """One process now, or None where it is gone or hidden, or `read_stat` says why it could not be read."""
        stat = self.read_stat(pid)
        return None if isinstance(stat, Absent) else stat

    def read_stat(self, pid: int) -> Reading[Stat] | None:
        """One process now, None where it is gone or hidden; absent if the file could not be read (EMFILE, EIO)."""
        try:
            return self._parsed(pid, "stat", lambda data: parse_stat(pid, data, _boot_time(self._prefix)))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return None
        except OSError as error:
            return unreadable(error)

    def resident_bytes(self, pid: int) -> Reading[int]:
        """The resident memory of one process now."""
        stat = self.read_stat(pid)
        return ENDED if stat is None else stat if isinstance(stat, Absent) else stat.rss_bytes

    def exit(self, pid: int) -> tuple[str, int] | None:
        """The state letter, and once the process is a zombie the status that wait() gives; None where it is gone."""
        try:
            return self._parsed(pid, "stat", parse_exit)
        except (FileNotFoundError, ProcessLookupError, PermissionError, MalformedError):
            return None

    def status(self, pid: int) -> Status:
        """What `stat` does not have, such as the user, the PID in the process's own namespace, the debugger."""
        return self._parsed(pid, "status", lambda data: parse_status(pid, data))

    def is_hidden(self, pid: int) -> bool:
        """Whether a PID that `stat` does not know exists all the same: /proc can be mounted with hidepid."""
        if not 0 < pid <= PID_MAX:  # 0 and below mean groups of processes
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return self.read_stat(pid) is None

    def owner(self, pid: int) -> str:
        """The user a process runs as: from `status`, because the folder of an undumpable process belongs to root."""
        return user_name(self.status(pid).uid)

    def arguments(self, pid: int, most_bytes: int = COMMAND_BYTES) -> tuple[str, ...]:
        """The command line, printable; empty for kernel threads and zombies. A longer one ends with "…"."""
        data = self._file(pid, "cmdline", most_bytes + 1)
        end = "…" if len(data) > most_bytes else ""
        data = data[:most_bytes].rstrip(b"\0 ")
        return tuple(printable(part) for part in f"{data.decode(errors='replace')}{end}".split("\0")) if data else ()

    def environment(self, pid: int) -> Iterator[tuple[str, str]]:
        """Names and values with which the process was started, printable, in its own order.

        Where the environment is longer than `DETAIL_BYTES`, a last pair says so.
        """
        data = self._file(pid, "environ", DETAIL_BYTES + 1)
        for name, value in parse_environment(_whole_entries(data)):
            yield printable(name.decode(errors="replace")), printable(value.decode(errors="replace"))
        if len(data) > DETAIL_BYTES:
            yield "…", f"(the environment has more than {DETAIL_BYTES // 1024} KiB, and the rest is not read)"

    def variables(self, pid: int) -> dict[str, str]:
        """The environment for code: bytes that are not UTF-8 are decoded as in `os.environ`."""
        entries = parse_environment(_whole_entries(self._file(pid, "environ", DETAIL_BYTES + 1)))
        return {os.fsdecode(name): os.fsdecode(value) for name, value in entries}

    def control_groups(self, pid: int) -> str:
        """The paths of a process's control groups, a line for each hierarchy, at most 64 KiB."""
        return self._file(pid, "cgroup", _CHUNK_BYTES).decode(errors="replace")

    def rollup(self, pid: int) -> Rollup | None:
        """Memory with shared pages divided among their users (the kernel walks all pages); None if it has ended."""
        return self._parsed(pid, "smaps_rollup", parse_rollup)

    def storage_traffic(self, pid: int) -> StorageTraffic | None:
        """Bytes read and written so far; None where this kernel does not count them."""
        return self._parsed(pid, "io", parse_io)

    def system_call(self, pid: int) -> SystemCall | None:
        """The system call that the main thread is in; None while it runs."""
        return self._parsed(pid, "syscall", parse_system_call)

    def kernel_function(self, pid: int) -> str:
        """The kernel's function that a process sleeps in; "" where there is none or it may not be seen."""
        try:
            name = self._file(pid, "wchan").decode(errors="replace")
        except OSError:
            return ""
        return "" if name == "0" else name

    def mapped_files(self, pid: int) -> Iterator[Mapping]:
        """The files that a process maps, once for each mapping."""
        return parse_maps(self._file(pid, "maps"))

    def is_any_mapped(self, pid: int, parts: tuple[bytes, ...]) -> bool:
        """Whether a process maps a file with one of `parts` in its path; much faster than `mapped_files`."""
        data = self._file(pid, "maps")
        return any(part in data for part in parts)

    def open_files(self, pid: int) -> int:
        """How many descriptors a process has open."""
        with os.scandir(f"{self._prefix}{pid}/fd") as entries:
            return sum(1 for _ in entries)

    def link(self, pid: int | str, name: str) -> str:
        """Where /proc/PID/name points: `cwd`, `exe`, `fd/3`, `ns/mnt`."""
        return os.readlink(f"{self._prefix}{pid}/{name}")

    def root_of(self, pid: int) -> str:
        """The path of the process's root folder, below which are the files as the process sees them."""
        return f"{self._prefix}{pid}/root"

    def driver_version(self) -> str:
        """The version of NVIDIA's kernel driver, "" where it is not loaded."""
        try:
            return parse_driver_version(read_file(f"{self._prefix}driver/nvidia/version"))
        except OSError:
            return ""

    def why_unreadable(self, pid: int, error: OSError) -> Absent:
        """A failed read in words: gone, somebody else's, or what the system says."""
        if isinstance(error, (FileNotFoundError, ProcessLookupError)):
            return NOT_OFFERED if self.read_stat(pid) else ENDED
        if not isinstance(error, PermissionError):
            return unreadable(error)
        try:
            return Absent(f"owned by {self.owner(pid)}: permission denied")
        except OSError:
            return Absent("permission denied")

    def _parsed(self, pid: int, name: str, parse: Callable[[bytes], T]) -> T:
        data = self._file(pid, name)
        try:
            return parse(data)
        except (ValueError, LookupError) as error:
            raise MalformedError(errno.EIO, "its form is unknown") from error

    def _file(self, pid: int, name: str, most_bytes: int = _MOST_BYTES) -> bytes:
        return read_file(f"{self._prefix}{pid}/{name}", most_bytes)


def unreadable(error: OSError) -> Absent:
    """Why a file of /proc could not be read, for errors that do not concern the process itself."""
    return Absent(f"cannot be read: {error.strerror or error}")


def read_file(path: str, most_bytes: int = _MOST_BYTES) -> bytes:
    """A whole file of /proc, or its first `most_bytes`.

    Files of /proc have no size, and may come page by page, so this reads until the end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, min(most_bytes, _CHUNK_BYTES))
        if not data:
            return data
        parts = bytearray(data)
        while len(parts) < most_bytes and (data := os.read(descriptor, min(most_bytes - len(parts), _CHUNK_BYTES))):
            parts += data
        return bytes(parts)
    finally:
        os.close(descriptor)


def _whole_entries(data: bytes) -> bytes:
    """An environment without the last entry if it was cut off at `DETAIL_BYTES`."""
    return data if len(data) <= DETAIL_BYTES else data[: data.rfind(b"\0") + 1]


@functools.cache
def _boot_time(prefix: str) -> float:
    """When the machine started (epoch seconds); read once, as the kernel's answer changes when the clock is set."""
    return parse_boot_time(read_file(f"{prefix}stat"))


class UserNames:
    """Login names, each looked up once in a thread of its own: a directory such as LDAP can take seconds.

    All calls together wait `patience_s` at most; after that, a call returns the number until the name has come.
    """

    def __init__(self, patience_s: float) -> None:
        self.patience_s = patience_s
        self._names: dict[int, str] = {}
        self._asked: dict[int, threading.Thread] = {}

    def __call__(self, uid: int) -> str:
        """The login name, or the number where the directory does not know it, or has not answered yet."""
        if uid not in self._asked:
            thread = threading.Thread(target=self._ask, args=(uid,), name="user name", daemon=True)
            thread.start()  # before another thread that asks can wait for it
            self._asked[uid] = thread
        if uid not in self._names and self.patience_s > 0:
            began = time.monotonic()
            self._asked[uid].join(self.patience_s)
            self.patience_s -= time.monotonic() - began
        return self._names.get(uid, str(uid))

    def _ask(self, uid: int) -> None:
        try:
            self._names[uid] = pwd.getpwuid(uid).pw_name
        except (KeyError, OSError):
            self._names[uid] = str(uid)


user_name = UserNames(patience_s=1.0)
"""The names for this process; a monitor, which looks again in a second, sets a shorter `patience_s`."""

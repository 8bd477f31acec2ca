"""Linux's /proc, read cheaply: one system call in, one line out, and an error that says whose process it was.

It exists beside psutil for what psutil does not tell of a process (what it waits for, its PID in other namespaces, that
hidepid hides it) and because a look at a thousand processes with psutil takes several times as long.
"""

from __future__ import annotations

import functools
import os
import pwd
from collections.abc import Iterator
from typing import NamedTuple

from gputui.model.process import ProcessState
from gputui.model.reading import Absent, Reading

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

PID_MAX = 4_194_304
"""PID_MAX_LIMIT of Linux's include/linux/threads.h: no process has a higher PID."""

ENDED = Absent("the process has ended")
NOT_OFFERED = Absent("not offered by this kernel")
SECOND_LOOK = Absent("known from the second look on")

STATES = {
    "R": ProcessState.RUNNING,
    "S": ProcessState.SLEEPING,
    "I": ProcessState.SLEEPING,
    "D": ProcessState.WAITING_FOR_IO,
    "T": ProcessState.STOPPED,
    "t": ProcessState.STOPPED,
    "Z": ProcessState.ZOMBIE,
    "X": ProcessState.ZOMBIE,
}
"""proc(5), field 3 of /proc/PID/stat."""

_CHUNK_BYTES = 65536


class Stat(NamedTuple):
    """/proc/PID/stat: `started` is in epoch seconds, `cpu_s` the user and system time of all its threads."""

    pid: int
    name: str
    letter: str
    parent_pid: int
    cpu_s: float
    threads: int
    started: float
    rss_bytes: int

    @property
    def state(self) -> ProcessState:
        """The letter in words; a letter of a newer kernel sleeps."""
        return STATES.get(self.letter, ProcessState.SLEEPING)


class ProcFs:
    """The processes under one /proc. Methods raise OSError as the kernel does, unless they say otherwise."""

    def __init__(self, root: str | os.PathLike[str] = "/proc") -> None:
        self.root = os.fspath(root)
        self._prefix = f"{self.root}/"

    def pids(self) -> list[int]:
        """All PIDs that this user may see."""
        with os.scandir(self._prefix) as entries:
            return [int(entry.name) for entry in entries if entry.name.isdigit()]

    def stat(self, pid: int) -> Stat | None:
        """One process now, or None where it is gone or hidden."""
        try:
            data = read_file(f"{self._prefix}{pid}/stat")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return None
        # The name may hold spaces and parentheses: only the last one closes it.
        opening, closing = data.find(b"("), data.rfind(b")")
        fields = data[closing + 2 :].split(None, 22)
        return Stat(
            pid=pid,
            name=data[opening + 1 : closing].decode(errors="replace"),
            letter=fields[0].decode(),
            parent_pid=int(fields[1]),
            cpu_s=(int(fields[11]) + int(fields[12])) / TICKS_PER_S,
            threads=int(fields[17]),
            started=boot_time(self._prefix) + int(fields[19]) / TICKS_PER_S,
            rss_bytes=int(fields[21]) * PAGE_BYTES,
        )

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
        return self.stat(pid) is None

    def file(self, pid: int, name: str) -> bytes:
        """/proc/PID/name, whole."""
        return read_file(f"{self._prefix}{pid}/{name}")

    def link(self, pid: int, name: str) -> str:
        """Where /proc/PID/name points."""
        return os.readlink(f"{self._prefix}{pid}/{name}")

    def count(self, pid: int, name: str) -> int:
        """Entries of the folder /proc/PID/name."""
        with os.scandir(f"{self._prefix}{pid}/{name}") as entries:
            return sum(1 for _ in entries)

    def owner(self, pid: int) -> str:
        """The user a process runs as: from `status`, because the folder of an undumpable process belongs to root."""
        return user_name(int(fields_of(self.file(pid, "status"))["Uid"].split()[1]))

    def arguments(self, pid: int) -> tuple[str, ...]:
        """The command line, printable; empty for kernel threads and zombies."""
        data = self.file(pid, "cmdline").rstrip(b"\0 ")
        return tuple(printable(part) for part in data.split(b"\0")) if data else ()

    def environment(self, pid: int) -> Iterator[tuple[str, str]]:
        """Names and values as the process was started with, in its own order."""
        for entry in self.file(pid, "environ").split(b"\0"):
            name, equals, value = entry.partition(b"=")
            if equals:
                yield printable(name), printable(value)

    def why_unreadable(self, pid: int, error: OSError) -> Absent:
        """A failed read in words: gone, somebody else's, or what the system says."""
        if isinstance(error, (FileNotFoundError, ProcessLookupError)):
            return NOT_OFFERED if self.stat(pid) else ENDED
        if not isinstance(error, PermissionError):
            return Absent(f"cannot be read: {error.strerror}")
        try:
            return Absent(f"owned by {self.owner(pid)}: permission denied")
        except OSError:
            return Absent("permission denied")


def read_file(path: str) -> bytes:
    """A whole file of /proc; it has no size to ask for and may come page by page, so it is read until it ends."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, _CHUNK_BYTES)
        while part := os.read(descriptor, _CHUNK_BYTES):
            data += part
        return data
    finally:
        os.close(descriptor)


def fields_of(data: bytes) -> dict[str, str]:
    """Lines of the form `Name:   value`, as `status`, `io` and `smaps_rollup` have them."""
    lines = (line.partition(":") for line in data.decode(errors="replace").splitlines())
    return {name: value.strip() for name, colon, value in lines if colon}


def kib(value: str) -> int:
    """Bytes in "1234 kB"; the kernel's kB are KiB."""
    return int(value.split(maxsplit=1)[0]) * 1024


def printable(data: bytes) -> str:
    """Text that cannot move the cursor: what is not printable is escaped."""
    text = data.decode(errors="replace")
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


@functools.cache
def boot_time(prefix: str) -> float:
    """When the machine started, in epoch seconds, asked once: the kernel's answer moves when the clock is set."""
    for line in read_file(f"{prefix}stat").splitlines():
        if line.startswith(b"btime "):
            return float(line.split()[1])
    return 0.0


@functools.cache
def user_name(uid: int) -> str:
    """The login name, or the number where the directory does not know it; asked once, LDAP can be slow."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def resident_bytes(pid: int) -> Reading[int]:
    """The resident memory of a process."""
    stat = ProcFs().stat(pid)
    return stat.rss_bytes if stat else ENDED

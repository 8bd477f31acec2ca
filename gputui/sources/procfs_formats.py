"""The file formats of /proc, each parsed here alone: bytes in, values out (proc(5) describes the files)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from gputui.model.machine.process import ProcessState

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

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
"""Field 3 of /proc/PID/stat."""

_EXIT_CODE = 49
"""The index of field 52 of /proc/PID/stat, the exit code, among the fields after the name."""
_DRIVER_VERSION = re.compile(r"Kernel Module.*?\s(\d+(?:\.\d+)+)")


class Stat(NamedTuple):
    """/proc/PID/stat: `started` is in epoch seconds, `cpu_s` the user and system time of all its threads.

    `group_pid` is the PID of the leader of its process group, which may have ended.
    """

    pid: int
    name: str
    letter: str
    parent_pid: int
    cpu_s: float
    threads: int
    started: float
    rss_bytes: int
    group_pid: int = 0

    @property
    def state(self) -> ProcessState:
        """The letter in words; a letter that only a newer kernel knows counts as sleeping."""
        return STATES.get(self.letter, ProcessState.SLEEPING)


class Status(NamedTuple):
    """/proc/PID/status: `uid` is the effective user, `inner_pid` the PID in the process's own PID namespace.

    `tracer_pid` is the debugger's, 0 without one. `is_strict`: seccomp allows the process to read, write and end only.
    """

    letter: str
    uid: int
    parent_pid: int
    inner_pid: int
    tracer_pid: int
    is_strict: bool = False


class Rollup(NamedTuple):
    """/proc/PID/smaps_rollup: `pss_bytes` counts a page that n processes map as 1/n; `shared_bytes` are pages that
    others map too."""

    pss_bytes: int
    shared_bytes: int
    swap_bytes: int


class StorageTraffic(NamedTuple):
    """/proc/PID/io: bytes that a process caused to be read from and written to storage so far."""

    read_bytes: int
    written_bytes: int


class SystemCall(NamedTuple):
    """The system call that a process is in: its number and its arguments."""

    number: int
    arguments: tuple[int, ...]


class Mapping(NamedTuple):
    """A mapped file of /proc/PID/maps; the file may have been deleted since."""

    path: str
    inode: int


def parse_stat(pid: int, data: bytes, boot_time: float) -> Stat:
    """/proc/PID/stat; its start time counts from `boot_time` (epoch seconds)."""
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
        started=boot_time + int(fields[19]) / TICKS_PER_S,
        rss_bytes=int(fields[21]) * PAGE_BYTES,
        group_pid=int(fields[2]),
    )


def parse_exit(data: bytes) -> tuple[str, int]:
    """The state letter of /proc/PID/stat, and the status that wait() will give; 0 where the kernel does not show it."""
    fields = data.rpartition(b")")[2].split()
    return fields[0].decode(), int(fields[_EXIT_CODE])


def parse_status(pid: int, data: bytes) -> Status:
    """/proc/PID/status; a kernel without PID namespaces has no NSpid."""
    fields = _fields(data)
    return Status(
        letter=fields["State"].split()[0],
        uid=int(fields["Uid"].split()[1]),
        parent_pid=int(fields["PPid"]),
        inner_pid=int(fields.get("NSpid", str(pid)).split()[-1]),
        tracer_pid=int(fields["TracerPid"]),
        is_strict=fields.get("Seccomp", "").strip() == "1",
    )


def parse_rollup(data: bytes) -> Rollup | None:
    """/proc/PID/smaps_rollup; None for a process that has ended and has no pages left."""
    fields = _fields(data)
    if "Pss" not in fields:
        return None
    return Rollup(
        pss_bytes=_kib(fields["Pss"]),
        shared_bytes=_kib(fields["Shared_Clean"]) + _kib(fields["Shared_Dirty"]),
        swap_bytes=_kib(fields.get("Swap", "0")),
    )


def parse_io(data: bytes) -> StorageTraffic | None:
    """/proc/PID/io; None on a kernel without CONFIG_TASK_IO_ACCOUNTING."""
    fields = _fields(data)
    if "read_bytes" not in fields:
        return None
    return StorageTraffic(int(fields["read_bytes"]), int(fields["write_bytes"]))


def parse_system_call(data: bytes) -> SystemCall | None:
    """/proc/PID/syscall; None for a process that runs."""
    number, *arguments = data.decode().split()
    if number == "running":
        return None
    return SystemCall(int(number), tuple(int(word, 16) for word in arguments))


def parse_environment(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names and values of /proc/PID/environ, in its order."""
    for entry in data.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals:
            yield name, value


def parse_maps(data: bytes) -> Iterator[Mapping]:
    """The files of /proc/PID/maps, one for each mapping."""
    for line in os.fsdecode(data).split("\n"):  # the kernel escapes no other end of a line in a path
        fields = line.removesuffix(" (deleted)").split(maxsplit=5)
        if len(fields) == 6:
            yield Mapping(path=fields[5], inode=int(fields[4]))


def parse_boot_time(data: bytes) -> float:
    """The boot in epoch seconds, from /proc/stat."""
    for line in data.splitlines():
        if line.startswith(b"btime "):
            return float(line.split()[1])
    return 0.0


def parse_driver_version(data: bytes) -> str:
    """The version in /proc/driver/nvidia/version, "" where there is none."""
    match = _DRIVER_VERSION.search(data.decode(errors="replace"))
    return match[1] if match else ""


def _fields(data: bytes) -> dict[str, str]:
    """Fields of `status`, `io` and `smaps_rollup`, whose lines have the form `Name:   value`."""
    lines = (line.partition(":") for line in data.decode(errors="replace").split("\n"))
    return {name: value.strip() for name, colon, value in lines if colon}


def _kib(value: str) -> int:
    """Bytes in "1234 kB"; the kernel's kB are KiB."""
    return int(value.split(maxsplit=1)[0]) * 1024

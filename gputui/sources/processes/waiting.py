"""What a process's main thread waits for, in words."""

from __future__ import annotations

import platform
from typing import NamedTuple

from gputui.model.reading import Reading
from gputui.sources.procfs import ENDED, MalformedError, ProcFs
from gputui.sources.procfs_formats import Stat


class _Call(NamedTuple):
    """A system call that waits: its numbers on the two architectures that CUDA runs on, and what it waits for."""

    name: str
    x86_64: int
    aarch64: int
    words: str
    takes_file: bool = False


_EVENTS = "an event on its files or sockets"
_FILE, _PEER, _CHILD, _TIME, _SIGNAL = (
    "data from",
    "the other end of",
    "a child process to end",
    "time to pass",
    "a signal",
)
_NONE = -1

_CALLS = (
    _Call("futex", 202, 98, "another of its threads (a lock, a condition or a result)"),
    _Call("futex_waitv", 449, 449, "another of its threads (a lock, a condition or a result)"),
    _Call("poll", 7, _NONE, _EVENTS),
    _Call("ppoll", 271, 73, _EVENTS),
    _Call("select", 23, _NONE, _EVENTS),
    _Call("pselect6", 270, 72, _EVENTS),
    _Call("epoll_wait", 232, _NONE, _EVENTS),
    _Call("epoll_pwait", 281, 22, _EVENTS),
    _Call("epoll_pwait2", 441, 441, _EVENTS),
    _Call("read", 0, 63, _FILE, takes_file=True),
    _Call("pread64", 17, 67, _FILE, takes_file=True),
    _Call("readv", 19, 65, _FILE, takes_file=True),
    _Call("write", 1, 64, _PEER, takes_file=True),
    _Call("ioctl", 16, 29, "a driver:", takes_file=True),
    _Call("recvfrom", 45, 207, _FILE, takes_file=True),
    _Call("recvmsg", 47, 212, _FILE, takes_file=True),
    _Call("sendto", 44, 206, _PEER, takes_file=True),
    _Call("sendmsg", 46, 211, _PEER, takes_file=True),
    _Call("connect", 42, 203, "a connection to be accepted:", takes_file=True),
    _Call("accept", 43, 202, "a connection to come in:", takes_file=True),
    _Call("accept4", 288, 242, "a connection to come in:", takes_file=True),
    _Call("fsync", 74, 82, "a file to be on disk:", takes_file=True),
    _Call("fdatasync", 75, 83, "a file to be on disk:", takes_file=True),
    _Call("flock", 73, 32, "a lock on a file:", takes_file=True),
    _Call("fcntl", 72, 25, "a lock on a file:", takes_file=True),
    _Call("nanosleep", 35, 101, _TIME),
    _Call("clock_nanosleep", 230, 115, _TIME),
    _Call("wait4", 61, 260, _CHILD),
    _Call("waitid", 247, 95, _CHILD),
    _Call("pause", 34, _NONE, _SIGNAL),
    _Call("rt_sigsuspend", 130, 133, _SIGNAL),
    _Call("rt_sigtimedwait", 128, 137, _SIGNAL),
    _Call("semop", 65, 193, "a semaphore shared with other processes"),
    _Call("semtimedop", 220, 192, "a semaphore shared with other processes"),
    _Call("io_getevents", 208, 4, "disk requests to complete"),
    _Call("io_uring_enter", 426, 426, "I/O requests to complete"),
    _Call("restart_syscall", 219, 128, "what it waited for before a signal came"),
)
"""Numbers from Linux's arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h."""

_BY_NUMBER = {
    machine: {getattr(call, machine): call for call in _CALLS if getattr(call, machine) != _NONE}
    for machine in ("x86_64", "aarch64")
}


def waiting_for(proc: ProcFs, stat: Stat) -> Reading[str]:
    """The end of a sentence: "nothing: it runs", "data from pipe:[4242] (read)", "a child process to end (wait4)"."""
    match stat.letter:
        case "R":
            return "nothing: it runs"
        case "Z" | "X":
            return f"its parent, PID {stat.parent_pid}, to collect it: it has ended"
        case "T":
            return "SIGCONT: it is stopped by a signal"
        case "t":
            return _tracer(proc, stat)
        case "D":
            function = proc.kernel_function(stat.pid)
            return "I/O, and no signal reaches it meanwhile" + (f" ({function})" if function else "")
        case _:
            return _call(proc, stat)


def _tracer(proc: ProcFs, stat: Stat) -> Reading[str]:
    try:
        tracer_pid = proc.status(stat.pid).tracer_pid
    except OSError as error:
        return proc.why_unreadable(stat.pid, error)
    tracer = proc.stat(tracer_pid)
    return f"its debugger, PID {tracer_pid}" + (f" ({tracer.name})" if tracer else "")


def _call(proc: ProcFs, stat: Stat) -> Reading[str]:
    try:
        system_call = proc.system_call(stat.pid)
    except MalformedError:  # an empty file: it ended in between
        return ENDED
    except OSError as error:
        # A user who may trace the process can read wchan, also on kernels that do not offer `syscall`.
        function = proc.kernel_function(stat.pid)
        return f"something in the kernel ({function})" if function else proc.why_unreadable(stat.pid, error)
    if system_call is None:
        return "nothing: it runs"
    call = _BY_NUMBER.get(platform.machine(), {}).get(system_call.number)
    if call is None:
        function = proc.kernel_function(stat.pid) or f"system call {system_call.number}"
        return f"something in the kernel ({function})"
    takes_file = call.takes_file and system_call.arguments
    file = f" {_file_name(proc, stat.pid, system_call.arguments[0])}" if takes_file else ""
    return f"{call.words}{file} ({call.name})"


def _file_name(proc: ProcFs, pid: int, descriptor: int) -> str:
    try:
        return proc.link(pid, f"fd/{descriptor}")
    except OSError:
        return f"file {descriptor}"

"""What the program's main thread is doing, seen from the probe's thread without disturbing it."""

from __future__ import annotations

import os

from gputui.probe.guards.descriptors import read_file
from gputui.probe.guards.thread_numbers import main_native_id
from gputui.probe.main_thread import process

_WAITING_CALLS = {
    "x86_64": "0 23 34 43 45 47 61 128 130 232 247 270 281 288 441",
    "aarch64": "22 63 72 95 133 137 202 207 212 242 260 441",
}
"""The numbers of the system calls that wait for input, a child or a signal, by machine.

They are read, select, pselect6, pause, accept, accept4, recvfrom, recvmsg, wait4, waitid, rt_sigtimedwait,
rt_sigsuspend, epoll_wait, epoll_pwait and epoll_pwait2. Locks, `nanosleep` and `poll` are not among them: the driver
uses these as well.
"""

_LOCK_CALLS = {"x86_64": "202", "aarch64": "98"}
"""The number of futex, the call in which a thread waits for a lock: the interpreter's, or one of the program's."""

JAILED = (
    "The program's main thread has put itself into a jail (seccomp), which may end the program for a system call of a"
    " look: nothing is read there."
)

ABSENT_AFTER_S = 0.05
"""A main thread that has not come back to Python for this long is absent."""
BUSY_S = 0.5
"""How long to wait for a main thread that may be in a device allocation, once in each absence: most take less."""


def is_in_backward() -> bool:
    """Whether any thread of the program waits for PyTorch's backward pass, during which graph and gradients change."""
    if process.loaded_torch() is None:
        return False
    from gputui.probe.objects import stacks

    return stacks.another_thread_is_in_backward()


def is_waiting() -> bool:
    """Whether the main thread is certainly not in a device allocation, but waits for something outside the process.

    A device allocation holds the allocator's lock, and a read in another thread would then stop all of Python until the
    driver is done.
    """
    task = _task()
    call = "".join(_lines(f"{task}/syscall")).partition(" ")[0]  # "" on kernels that do not report it
    return _is_asleep(task) and call in _WAITING_CALLS.get(os.uname().machine, "").split()


def may_want_to_run() -> bool:
    """Whether the main thread may be waiting for a processor or for the interpreter's lock, and for nothing else."""
    call = "".join(_lines(f"{_task()}/syscall")).partition(" ")[0]  # "" on kernels that do not report it
    return call in ("", "running", _LOCK_CALLS.get(os.uname().machine))


def is_jailed() -> bool:
    """Whether the main thread's filters of system calls differ from this thread's, which are those of its start."""
    return _jail(_task()) != _jail("/proc/thread-self")


class Watch:
    """Tells whether the main thread has moved since the watch was made."""

    def __init__(self) -> None:
        task = _task()
        self._is_asleep = _is_asleep(task)
        self._switches = _context_switches(task)
        self._place = place()  # last: reading the files above lets other threads run

    def has_moved(self) -> bool:
        """Whether the main thread has run Python code or, if it was asleep, anything at all."""
        if place() != self._place:
            return True
        return self._is_asleep and _context_switches(_task()) != self._switches


def place() -> tuple[int, int] | None:
    """The main thread's innermost frame and the last instruction in it."""
    frame = process.main_thread_frame()
    return None if frame is None else (id(frame), frame.f_lasti)


def _task() -> str:
    """The folder of the main thread in /proc."""
    return f"/proc/self/task/{main_native_id()}"


def _is_asleep(task: str) -> bool:
    """Whether the thread sleeps in a system call."""
    return any(line.startswith("State:") and "(sleeping)" in line for line in _lines(f"{task}/status"))


def _jail(task: str) -> list[str]:
    return [line for line in _lines(f"{task}/status") if line.startswith("Seccomp")]


def _context_switches(task: str) -> list[str]:
    """How often the thread has given up a processor, voluntarily or not: unchanged if it did not run in between."""
    return [line for line in _lines(f"{task}/status") if "ctxt_switches" in line]


def _lines(path: str) -> list[str]:
    try:
        return read_file(path).decode("utf-8", "replace").splitlines()
    except OSError:  # /proc is not there in a chroot, and the kernel may be built without the file
        return []

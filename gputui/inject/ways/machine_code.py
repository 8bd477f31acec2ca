"""What differs between processors: the registers, and the code that the stopped thread runs.

The code is assembled from `x86_64.s` and `aarch64.s`, which explain it, by `python -m tests.inject.assemble`. It finds
everything in the data region, whose layout is here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

PAGE_BYTES = 0x10000
"""The largest page of any Linux that is supported: regions are multiples of it."""

READY, STATE, INNER_PID = 0x00, 0x08, 0x10
ADD_PENDING_CALL = 0x20
FUNCTIONS = {
    ADD_PENDING_CALL: "Py_AddPendingCall",
    0x28: "PyThread_start_new_thread",
    0x30: "PyGILState_Ensure",
    0x38: "PyGILState_Release",
    0x40: "PyDict_New",
    0x48: "PyMemoryView_FromMemory",
    0x50: "PyDict_SetItemString",
    0x58: "PyRun_StringFlags",
    0x60: "Py_DecRef",
    0x68: "PyErr_Clear",
}
"""The interpreter's functions that the code calls, by where their addresses are in the data region."""
MUNMAP, CODE, CODE_SIZE, DATA_SIZE, TEXT, NAME = 0x70, 0x78, 0x80, 0x88, 0x90, 0x98
NAME_AT = 0x100
REPORT_AT, REPORT_BYTES = 0x1000, 0x1000
TEXT_AT = 0x8000
"""Between the report and the text, the code keeps vector registers: 2.7 KiB with AVX-512, 11 KiB with AMX."""


class State:
    """The data region's `STATE`, as the code sets it; `WITHDRAWN` is set from outside."""

    NEW = 0
    QUEUED = 1
    QUEUE_FULL = 2
    STARTED = 3
    NO_THREAD = 4
    WITHDRAWN = 5


@dataclass(frozen=True, slots=True)
class Machine:
    """One kind of processor.

    `registers` are the names of the words of its general-purpose register set, `frame_of` makes from them what the code
    restores them from at the end, and `start_of` what the tracer sets. `queue` begins with the call of the same name.
    """

    elf_machine: int
    registers: tuple[str, ...]
    map: bytes
    queue: bytes
    instruction: str
    stack: str
    red_zone_bytes: int
    system_call: str
    first_argument: str
    mmap_number: int
    frame_of: Callable[[Mapping[str, int]], bytes]
    start_of: Callable[[Mapping[str, int], int, int, int, int], dict[str, int]]
    interrupted_call: Callable[[Mapping[str, int]], int | None]
    """The number of the system call that the thread was asleep in, None if it was in none."""
    sleeps: frozenset[int]
    """The system calls in which a thread that sleeps holds no lock of the C library."""
    lock_waits: frozenset[int]
    """Those in which a thread waits for a lock, which may be one of malloc unless it waits for long."""


_X86_64_REGISTERS = (
    *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi"),
    *("orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs"),
)
_X86_64_POPPED = ("r15", "r14", "r13", "r12", "r11", "r10", "r9", "r8", "rdi", "rsi", "rbp", "rbx", "rdx", "rcx", "rax")
_X86_64_FUTEX, _X86_64_RESTART_SYSCALL = 202, 219
_X86_64_SLEEPS = frozenset((0, 7, 23, 34, 35, 43, 45, 47, 61, 128, 230, 232, 247, 270, 271, 281, 288, 299))
"""read, poll, select, pause, nanosleep, accept, recvfrom, recvmsg, wait4, rt_sigtimedwait, clock_nanosleep, epoll_wait,
waitid, pselect6, ppoll, epoll_pwait, accept4, recvmmsg. Not futex: the thread may wait for a lock of malloc."""
_INTERRUPTED = -4
"""EINTR: of calls that the kernel does not restart."""
_RESTARTED = {-512, -513, -514}
"""ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND: an interrupted call that is made again with the same arguments."""
_RESTARTED_BY_BLOCK = -516
"""ERESTART_RESTARTBLOCK: a call with a time limit, which goes on where it was by way of `restart_syscall`."""

_X86_64_MAP = bytes.fromhex(
    "0f054989c4483d00f0ffff774031ff4889deba05000000b8090000000f054989c5483d00f0ffff771749833c24007403"
    "41ffe54c89ef4889deb80b0000000f054c89e74889eeb80b0000000f05415f415e415d415c415b415a415941585f5e5d"
    "5b5a59589dc28000"
)
_X86_64_QUEUE = bytes.fromhex(
    "fcb8ffffffffbaffffffff490faea424002000004989e64883e4f0488d3d500000004c89e641c74424080100000041ff"
    "54242083f8ff750941c7442408020000004c89f4b8ffffffffbaffffffff490faeac2400200000415f415e415d415c41"
    "5b415a415941585f5e5d5b5a59589dc28000534889fbb8270000000f053b4310752fb801000000b903000000f00fb14b"
    "08751e488d3d410000004889deff53284883f8ff7507c743080400000031c05bc34c8b4370488b53784c8b9380000000"
    "4889df488bb388000000b80b0000000f054889d74c89d65b41ffe05341544155415641574889fb4531e44531f6ff5330"
    "4189c5ff53404989c44885c0744c4889df488bb388000000ba00020000ff53484989c64885c074324c89e7488bb39800"
    "00004c89f2ff535085c0751e488bbb90000000be010100004c89e24c89e14531c0ff53584889c7ff5360ff53684c89f7"
    "ff53604c89e7ff53604489efff53384c8b4370488b53784c8b93800000004889df488bb388000000b80b0000000f0548"
    "89d74c89d6415f415e415d415c5b41ffe0"
)


def _result(registers: Mapping[str, int]) -> int:
    """What the kernel is about to return from a system call."""
    return registers["rax"] - (1 << 64 if registers["rax"] >> 63 else 0)


def _x86_64_interrupted_call(registers: Mapping[str, int]) -> int | None:
    is_interrupted = _result(registers) in {*_RESTARTED, _RESTARTED_BY_BLOCK, _INTERRUPTED}
    return registers["orig_rax"] if is_interrupted else None


def _x86_64_frame(registers: Mapping[str, int]) -> bytes:
    restored = dict(registers)
    result = _result(registers)
    if registers["orig_rax"] >> 63 == 0 and (result in _RESTARTED or result == _RESTARTED_BY_BLOCK):
        # As the kernel does on the way back to the program: the system call instruction has two bytes.
        restored["rax"] = _X86_64_RESTART_SYSCALL if result == _RESTARTED_BY_BLOCK else registers["orig_rax"]
        restored["rip"] = registers["rip"] - 2
    words = [*(restored[name] for name in _X86_64_POPPED), restored["eflags"], restored["rip"]]
    return struct.pack(f"<{len(words)}Q", *words)


def _x86_64_start(
    registers: Mapping[str, int], code_at: int, stack: int, data_bytes: int, code_bytes: int
) -> dict[str, int]:
    no_file = (1 << 64) - 1
    started = {"rip": code_at, "rsp": stack, "orig_rax": no_file, "rbx": code_bytes, "rbp": data_bytes}
    call = {"rax": 9, "rdi": 0, "rsi": data_bytes, "rdx": 3, "r10": 0x22, "r8": no_file, "r9": 0}
    return {**registers, **started, **call}


X86_64 = Machine(
    elf_machine=62,
    registers=_X86_64_REGISTERS,
    map=_X86_64_MAP,
    queue=_X86_64_QUEUE,
    instruction="rip",
    stack="rsp",
    red_zone_bytes=128,
    system_call="orig_rax",
    first_argument="rax",
    mmap_number=9,
    frame_of=_x86_64_frame,
    start_of=_x86_64_start,
    interrupted_call=_x86_64_interrupted_call,
    sleeps=_X86_64_SLEEPS,
    lock_waits=frozenset((_X86_64_FUTEX, _X86_64_RESTART_SYSCALL)),
)

MACHINES = {"x86_64": X86_64}
"""By `os.uname().machine`."""

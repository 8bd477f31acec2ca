"""What the tracer knows of the processor x86-64, and the code that the stopped thread runs; gdb is for the others.

The code is assembled from `x86_64.s`, which explains it, by `python -m tests.inject.assemble`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping

IS_HERE = os.uname().machine == "x86_64"
ELF_MACHINE = 62
REGISTERS = (
    *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi"),
    *("orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs"),
)
"""The names of the words of the general-purpose register set."""
_POPPED = ("r15", "r14", "r13", "r12", "r11", "r10", "r9", "r8", "rdi", "rsi", "rbp", "rbx", "rdx", "rcx", "rax")
INSTRUCTION, STACK, SYSTEM_CALL, RESULT = "rip", "rsp", "orig_rax", "rax"
RED_ZONE_BYTES = 128
MMAP_NUMBER = 9
_FUTEX, _RESTART_SYSCALL = 202, 219
SLEEPS = frozenset((0, 7, 23, 34, 35, 43, 45, 47, 61, 128, 230, 232, 247, 270, 271, 281, 288, 299))
"""System calls in which a thread that sleeps holds no lock of the C library: read, poll, select, pause, nanosleep,
accept, recvfrom, recvmsg, wait4, rt_sigtimedwait, clock_nanosleep, epoll_wait, waitid, pselect6, ppoll, epoll_pwait,
accept4, recvmmsg. Not futex: the thread may wait for a lock of malloc."""
LOCK_WAITS = frozenset((_FUTEX, _RESTART_SYSCALL))
"""System calls in which a thread waits for a lock, which may be one of malloc unless it waits for long."""
_INTERRUPTED = -4
"""EINTR: the result of calls that the kernel does not restart."""
_RESTARTED = {-512, -513, -514}
"""ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND: an interrupted call that is made again with the same arguments."""
_RESTARTED_BY_BLOCK = -516
"""ERESTART_RESTARTBLOCK: a call with a time limit, which goes on where it was by way of `restart_syscall`."""

MAP = bytes.fromhex(
    "0f054989c4483d00f0ffff774031ff4889deba05000000b8090000000f054989c5483d00f0ffff771749833c24007403"
    "41ffe54c89ef4889deb80b0000000f054c89e74889eeb80b0000000f05415f415e415d415c415b415a415941585f5e5d"
    "5b5a59589dc28000"
)
QUEUE = bytes.fromhex(
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


def interrupted_call(registers: Mapping[str, int]) -> int | None:
    """The number of the system call that the thread was asleep in, None if it was in none."""
    is_interrupted = _result(registers) in {*_RESTARTED, _RESTARTED_BY_BLOCK, _INTERRUPTED}
    return registers["orig_rax"] if is_interrupted else None


def frame_of(registers: Mapping[str, int]) -> bytes:
    """The words from which the code restores the registers at its end, as they lie on the stack."""
    restored = dict(registers)
    result = _result(registers)
    if registers["orig_rax"] >> 63 == 0 and (result in _RESTARTED or result == _RESTARTED_BY_BLOCK):
        # As the kernel does on the way back to the program: the system call instruction has two bytes.
        restored["rax"] = _RESTART_SYSCALL if result == _RESTARTED_BY_BLOCK else registers["orig_rax"]
        restored["rip"] = registers["rip"] - 2
    words = [*(restored[name] for name in _POPPED), restored["eflags"], restored["rip"]]
    return struct.pack(f"<{len(words)}Q", *words)


def start_of(
    registers: Mapping[str, int], code_at: int, stack: int, data_bytes: int, code_bytes: int
) -> dict[str, int]:
    """The registers that the tracer sets: the code begins with a call of mmap for the data region."""
    no_file = (1 << 64) - 1
    started = {"rip": code_at, "rsp": stack, "orig_rax": no_file, "rbx": code_bytes, "rbp": data_bytes}
    call = {"rax": 9, "rdi": 0, "rsi": data_bytes, "rdx": 3, "r10": 0x22, "r8": no_file, "r9": 0}
    return {**registers, **started, **call}

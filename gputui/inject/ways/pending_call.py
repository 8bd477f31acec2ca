"""Queues a pending call in the main thread of another process: the steps, in their order.

Each step says what becomes of the program if this process dies right after it. There is nothing to undo at any of them:
the thread runs code that restores all of its registers by itself (see `x86_64.s`).
"""

from __future__ import annotations

import errno
import os
import signal
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from gputui.inject.process.images import Memory
from gputui.inject.ways import payload, x86_64
from gputui.inject.ways.data_region import (
    ADD_PENDING_CALL,
    CODE,
    CODE_SIZE,
    DATA_SIZE,
    FUNCTIONS,
    INNER_PID,
    MUNMAP,
    NAME,
    NAME_AT,
    PAGE_BYTES,
    READY,
    STATE,
    TEXT,
    TEXT_AT,
)
from gputui.inject.ways.ptrace import Stop, Thread

STEPS = (
    ("seized", "the thread runs on, untraced"),
    ("stopped", "the thread runs on where it was; an interrupted system call is restarted by the kernel"),
    ("written", "the thread runs on; the bytes after the end of a library's code are never run"),
    ("started", "the thread maps two regions, finds them empty, unmaps them, and returns to where it was"),
    ("mapped", "the same"),
    ("filled", "the same"),
    ("ready", "the thread queues the pending call, and returns to where it was: the probe starts"),
    ("released", "the same"),
)
"""Each step, and what becomes of the program if the tracer dies right after it."""
STOP_WITHIN_S = 2.0
_ANSWER_WITHIN_S = 1.0
_POLL_S = 0.001
_ERRORS_FROM = (1 << 64) - 4096


class StepError(Exception):
    """A step failed; the program is as it was. `step` is the one that was not reached, `number` an errno or 0."""

    def __init__(self, step: str, words: str, number: int = 0) -> None:
        super().__init__(words)
        self.step = step
        self.number = number


@dataclass(frozen=True, slots=True)
class Plan:
    """All that was found out before the thread is stopped: addresses in the process, and what is written there.

    `is_in_lock` says that the main thread has long waited for a lock of Python's, where it holds none of the C library.
    """

    pid: int
    inner_pid: int
    unused_code: int
    functions: dict[str, int]
    munmap: int
    linger_s: float
    lives: dict[int, int]
    """`Interpreter.lives`, checked in the stop as well: a call queued while Python ends can crash the program."""
    is_in_lock: bool = False


@dataclass(frozen=True, slots=True)
class Queued:
    """Where the data region is, and where and for how long the thread was stopped."""

    data: int
    code: int
    stopped_at: int
    stopped_s: float


def queue(plan: Plan, reached: Callable[[str], None]) -> Queued:
    """Take all steps, calling `reached` after each. Raises StepError, OSError, EndedError and TooLateError."""
    content = payload.for_memory(plan.linger_s)
    data_bytes, code_bytes = _rounded(TEXT_AT + len(content.data)), _rounded(len(x86_64.QUEUE))
    with Memory(plan.pid, is_writable=True) as memory:
        thread = Thread(plan.pid)
        reached("seized")
        _stop(thread)
        began = time.perf_counter()
        reached("stopped")
        if not is_alive(plan.lives, memory):
            thread.let_go()
            raise StepError("stopped", "its Python is ending")
        registers = thread.registers()
        frame = x86_64.frame_of(registers)
        stack = registers[x86_64.STACK] - x86_64.RED_ZONE_BYTES - len(frame)
        memory.write(stack, frame)
        thread.write_code(plan.unused_code, x86_64.MAP)
        reached("written")
        thread.set_registers(x86_64.start_of(registers, plan.unused_code, stack, data_bytes, code_bytes))
        reached("started")
        data = _mapped(thread, plan.unused_code)
        code = _mapped(thread, plan.unused_code)
        reached("mapped")
        thread.write_code(code, x86_64.QUEUE)
        memory.write(data + 8, _header(plan, data, data_bytes, code, code_bytes, data + TEXT_AT + content.text_at)[8:])
        memory.write(data + TEXT_AT, content.data)
        sleeps = x86_64.SLEEPS | x86_64.LOCK_WAITS if plan.is_in_lock else x86_64.SLEEPS
        if x86_64.interrupted_call(registers) in sleeps:  # it may sleep for long, and a new thread can start at once
            memory.write(data + ADD_PENDING_CALL, struct.pack("<Q", plan.functions["PyThread_start_new_thread"]))
        reached("filled")
        memory.write(data + READY, struct.pack("<Q", 1))
        reached("ready")
        thread.let_go()
        stopped_s = time.perf_counter() - began
        reached("released")
        _erase(memory, plan, data)
    return Queued(data, code, registers[x86_64.INSTRUCTION], stopped_s)


def is_alive(lives: dict[int, int], memory: Memory) -> bool:
    """Whether an interpreter is neither starting nor ending."""
    return all(memory.read(address, 4) == value.to_bytes(4, "little") for address, value in lives.items())


def _stop(thread: Thread) -> None:
    """Stop the thread, and pass on the signals that arrive first."""
    thread.interrupt()
    deadline = time.monotonic() + STOP_WITHIN_S
    stop = thread.wait(STOP_WITHIN_S)
    while stop is Stop.SIGNAL and time.monotonic() < deadline:
        thread.go_on()
        stop = thread.wait(STOP_WITHIN_S)
    if stop is not Stop.INTERRUPTED:
        thread.let_go()
        raise StepError("stopped", "signals or job control kept it from stopping")


def _erase(memory: Memory, plan: Plan, data: int) -> None:
    """Erase the first piece of code once the thread has left it; it does no harm where that is not possible."""
    deadline = time.monotonic() + _ANSWER_WITHIN_S
    with suppress(OSError):  # the data region is gone: the thread has left long ago
        while not memory.read(data + STATE, 4)[0]:
            if time.monotonic() > deadline:
                return
            time.sleep(_POLL_S)
    with suppress(OSError):  # some kernels let only a tracer write here
        memory.write(plan.unused_code, bytes(len(x86_64.MAP)))


def _mapped(thread: Thread, code_at: int) -> int:
    """The address that the next system call of our code returns; a signal handler may make others in between."""
    for _ in ("entered", "left"):
        _to_own_call(thread, code_at)
    address = thread.registers()[x86_64.RESULT]
    number = (1 << 64) - address
    if address == x86_64.MMAP_NUMBER:  # no result: a filter (seccomp) answers with a signal, which comes next
        number = errno.EPERM
        thread.to_next_system_call()
        if thread.wait(_ANSWER_WITHIN_S) is Stop.SIGNAL and thread.signal == signal.SIGSYS:
            thread.signal = 0
            thread.set_registers({**thread.registers(), x86_64.RESULT: (1 << 64) - number})
    elif address < _ERRORS_FROM:
        return address
    thread.let_go()
    raise StepError("mapped", f"mmap: {os.strerror(number)}", number)


def _to_own_call(thread: Thread, code_at: int) -> None:
    """Let the thread run to the beginning or the end of an mmap call of our code."""
    while True:
        thread.to_next_system_call()
        stop = thread.wait(_ANSWER_WITHIN_S)
        if stop is Stop.SYSTEM_CALL:
            registers = thread.registers()
            is_ours = code_at <= registers[x86_64.INSTRUCTION] <= code_at + len(x86_64.MAP)
            if is_ours and registers[x86_64.SYSTEM_CALL] == x86_64.MMAP_NUMBER:
                return
        elif stop is not Stop.SIGNAL:
            thread.let_go()
            raise StepError("mapped", "the program was stopped by job control")


def _header(plan: Plan, data: int, data_bytes: int, code: int, code_bytes: int, text: int) -> bytes:
    header = bytearray(NAME_AT + 16)
    words = {at: plan.functions[name] for at, name in FUNCTIONS.items()}
    words |= {INNER_PID: plan.inner_pid, MUNMAP: plan.munmap, NAME: data + NAME_AT}
    words |= {CODE: code, CODE_SIZE: code_bytes, DATA_SIZE: data_bytes, TEXT: text}
    for at, word in words.items():
        struct.pack_into("<Q", header, at, word)
    header[NAME_AT : NAME_AT + 7] = b"region\0"
    return bytes(header)


def _rounded(size: int) -> int:
    return -(-size // PAGE_BYTES) * PAGE_BYTES

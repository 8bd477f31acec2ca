"""Calls the kernel's ptrace by ctypes, for one thread of another process, which is seized without being stopped."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from enum import IntEnum
from typing import NoReturn

from gputui.inject.ways.x86_64 import REGISTERS

_GETREGSET, _SETREGSET = 0x4204, 0x4205
_SEIZE, _INTERRUPT = 0x4206, 0x4207
_CONTINUE, _DETACH, _SYSCALL = 7, 17, 24
_POKE = 5
_GENERAL_REGISTERS = 1
_TRACE_SYSTEM_CALLS = 1
_EVENT_STOP = 128
_SYSTEM_CALL_STOP = signal.SIGTRAP | 0x80
_ALL_THREADS = 0x40000000
"""__WALL: wait also for threads that `clone` made without a signal for their end."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)


class Vector(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


class Stop(IntEnum):
    """Why a seized thread has stopped."""

    INTERRUPTED = 1
    SYSTEM_CALL = 2
    SIGNAL = 3
    JOB_CONTROL = 4


class EndedError(Exception):
    """The thread has ended."""


class TooLateError(Exception):
    """The thread did not stop in time."""


class Thread:
    """A seized thread. It is let go when this process ends, whatever state it is in."""

    def __init__(self, tid: int) -> None:
        self.tid = tid
        self.signal = 0
        """The signal with which it stopped, to be passed on."""
        self._call(_SEIZE, 0, _TRACE_SYSTEM_CALLS)

    def interrupt(self) -> None:
        """Ask it to stop."""
        self._call(_INTERRUPT, 0, 0)

    def wait(self, limit_s: float) -> Stop:
        """Wait for its next stop. Raises TooLateError after `limit_s` and EndedError; in the main thread only."""
        signal.signal(signal.SIGALRM, _too_late)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        try:
            _, status = os.waitpid(self.tid, _ALL_THREADS)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return self._kind(status)

    def registers(self) -> dict[str, int]:
        """The general-purpose registers by name."""
        size = 8 * len(REGISTERS)
        buffer = ctypes.create_string_buffer(size)
        vector = Vector(ctypes.addressof(buffer), size)
        self._call(_GETREGSET, _GENERAL_REGISTERS, ctypes.addressof(vector))
        words = struct.unpack(f"<{len(REGISTERS)}Q", buffer.raw)
        return dict(zip(REGISTERS, words, strict=True))

    def set_registers(self, registers: dict[str, int]) -> None:
        """Set all registers in one call, so that there is no state in between."""
        words = [registers[name] for name in REGISTERS]
        buffer = ctypes.create_string_buffer(struct.pack(f"<{len(words)}Q", *words), 8 * len(words))
        vector = Vector(ctypes.addressof(buffer), 8 * len(words))
        self._call(_SETREGSET, _GENERAL_REGISTERS, ctypes.addressof(vector))

    def write_code(self, address: int, code: bytes) -> None:
        """Write to memory that the program itself may not write, in whole words."""
        padded = code + bytes(-len(code) % 8)
        for at in range(0, len(padded), 8):
            self._call(_POKE, address + at, int.from_bytes(padded[at : at + 8], "little"))

    def to_next_system_call(self) -> None:
        """Let it run to the beginning or the end of a system call."""
        self._call(_SYSCALL, 0, self._passed_on())

    def go_on(self) -> None:
        """Let it run."""
        self._call(_CONTINUE, 0, self._passed_on())

    def let_go(self) -> None:
        """Let it run, untraced; it must be stopped."""
        self._call(_DETACH, 0, self._passed_on())

    def _passed_on(self) -> int:
        number, self.signal = self.signal, 0
        return number

    def _kind(self, status: int) -> Stop:
        if not os.WIFSTOPPED(status):
            raise EndedError
        number = os.WSTOPSIG(status)
        if number == _SYSTEM_CALL_STOP:
            return Stop.SYSTEM_CALL
        if status >> 16 == _EVENT_STOP:
            return Stop.INTERRUPTED if number == signal.SIGTRAP else Stop.JOB_CONTROL
        self.signal = number
        return Stop.SIGNAL

    def _call(self, request: int, address: int, data: int) -> int:
        ctypes.set_errno(0)
        result = int(_libc.ptrace(request, self.tid, address, data))
        if result == -1 and ctypes.get_errno():
            _raise(ctypes.get_errno())
        return result


def _too_late(_number: int, _frame: object) -> NoReturn:
    raise TooLateError


def _raise(number: int) -> NoReturn:
    raise OSError(number, os.strerror(number))

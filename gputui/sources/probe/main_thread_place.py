"""Tells where a main thread is that does not come back to Python, as far as can be read without stopping it."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from typing import NamedTuple

from gputui.inject.process import interpreter
from gputui.inject.process.images import Mapping, Memory, mappings
from gputui.inject.process.python_frames import PythonFrame, frames_of_main_thread
from gputui.inject.ways import x86_64
from gputui.sources.processes.waiting import waiting_for
from gputui.sources.procfs import MalformedError, ProcFs

_STACK_BYTES = 4096
_WRAPPERS = re.compile(r"(lib(c|pthread|m)[.-]|ld-)|^\[")
"""Code through which all programs wait, of the C library and the kernel: its caller is what matters."""
_PYTHON = re.compile(r"(lib)?python3")
"""Python itself, which is not mentioned where the line is known."""
_ACQUIRE, _ACQUIRE_BYTES = "PyThread_acquire_lock_timed", 768
"""The function by which Python waits for a lock, and the most bytes that its code has."""
_LIBRARY_FILES = re.compile(r"/(site|dist)-packages/|/lib/python3|^<")
"""Files of Python code that is not the program's own."""


def place_of_main_thread(pid: int, stopped_at: int) -> str:
    """A sentence, or "" if nothing can be read. `stopped_at` is the address at which the thread was stopped, or 0.

    The library in it is a guess: the first one in whose code an address on the stack lies.
    """
    proc = ProcFs()
    stat = proc.stat(pid)
    reading = "" if stat is None else waiting_for(proc, stat)
    if not isinstance(reading, str) or not reading:
        return ""
    is_running = reading.startswith("nothing")
    try:
        mapped = mappings(pid)
        addresses = [stopped_at] if is_running else _stack(proc, pid, mapped)
    except (OSError, MalformedError):
        mapped, addresses = [], []
    library = _first_library(addresses, [mapping for mapping in mapped if "x" in mapping.permissions and mapping.path])
    line = _python_line(proc, pid, mapped)
    at_line = f", at {line}" if line else ""
    if line and (_PYTHON.match(library) or (not is_running and _waits_in_python(proc, pid))):
        library = ""
    if is_running:
        was_in = f", and was in {library} when it was stopped" if library else ""
        return f"Its main thread is computing{at_line}{was_in}."
    called_from = f", called from {library}" if library else ""
    return f"Its main thread waits for {reading}{called_from}{at_line}."


def line_of_main_thread(pid: int) -> str:
    """The line of the program's own code in the main thread, "train.py:23 in step"; "" if it cannot be read."""
    try:
        return _python_line(ProcFs(), pid, mappings(pid))
    except (OSError, MalformedError):
        return ""


def _waits_in_python(proc: ProcFs, pid: int) -> bool:
    try:
        return _is_in_python(proc, pid)
    except (OSError, MalformedError, struct.error):
        return False


class Wait(NamedTuple):
    """One wait of the main thread: the system call's arguments, and how often the thread has been switched."""

    arguments: tuple[int, ...]
    switches: tuple[bytes, ...]
    is_for_lock: bool


def wait_of_main_thread(pid: int) -> Wait | None:
    """What the main thread waits for; None if it does not wait, or if other code than Python's waits for a lock.
    If two readings are equal, the thread has not run in between."""
    proc = ProcFs()
    try:
        status = Path(f"/proc/{pid}/task/{pid}/status").read_bytes()
        system_call = proc.system_call(pid)
    except (OSError, MalformedError):
        return None
    if not x86_64.IS_HERE or system_call is None or system_call.number not in x86_64.SLEEPS | x86_64.LOCK_WAITS:
        return None
    is_for_lock = system_call.number in x86_64.LOCK_WAITS
    if is_for_lock and not _waits_in_python(proc, pid):
        return None
    switches = tuple(line for line in status.splitlines() if b"ctxt_switches" in line)
    return Wait(tuple(system_call.arguments), switches, is_for_lock)


def _is_in_python(proc: ProcFs, pid: int) -> bool:
    """Whether Python's own code made the system call in which the main thread waits. On the stack, addresses left by an
    earlier call of a library can come before those of Python's function for locks."""
    mapped = mappings(pid)
    stack = _stack(proc, pid, mapped)
    code = [mapping for mapping in mapped if "x" in mapping.permissions and mapping.path]
    if _PYTHON.match(_first_library(stack, code)):
        return True
    with Memory(pid) as memory:
        found = interpreter.find(mapped, proc.link(pid, "exe"), memory, [_ACQUIRE])
    start = found.functions.get(_ACQUIRE) if found else None
    return start is not None and any(start < word < start + _ACQUIRE_BYTES for word in stack)


def _python_line(proc: ProcFs, pid: int, mapped: list[Mapping]) -> str:
    """The line that the program's own code has reached, "train.py:23 in step"; "" if it cannot be read."""
    try:
        with Memory(pid) as memory:
            found = interpreter.find(mapped, proc.link(pid, "exe"), memory, [])
            frames = [] if found is None else frames_of_main_thread(found, memory)
    except (OSError, MalformedError, struct.error):  # the program has moved on while it was read
        return ""
    own: list[PythonFrame] = [frame for frame in frames if not _LIBRARY_FILES.search(frame.file)]
    return next((f"{os.path.basename(frame.file)}:{frame.line} in {frame.function}" for frame in own or frames), "")


def _stack(proc: ProcFs, pid: int, mapped: list[Mapping]) -> list[int]:
    """The innermost words of the main thread's stack, up to `_STACK_BYTES`; [] if the thread runs."""
    system_call = proc.system_call(pid)
    if system_call is None or len(system_call.arguments) < 2:
        return []
    top = system_call.arguments[-2] & ~7
    left = next((mapping.end - top for mapping in mapped if mapping.start <= top < mapping.end), 0)
    with Memory(pid) as memory:
        data = memory.read(top, min(left, _STACK_BYTES))
    return [word for (word,) in struct.iter_unpack("<Q", data)]


def _first_library(addresses: list[int], code: list[Mapping]) -> str:
    for address in addresses:
        for mapping in code:
            name = os.path.basename(mapping.path)
            if mapping.start <= address < mapping.end and not _WRAPPERS.search(name):
                return name
    return ""

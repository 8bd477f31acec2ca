"""Where the main thread of another process is in Python, read from its memory without stopping it.

A program that runs meanwhile changes what is read: then frames are missing, or nothing is found. Layouts: the debug
offsets at the start of `_PyRuntime` (Python 3.13 and newer, Include/internal/pycore_debug_offsets.h), a table before.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from gputui.inject.process.images import Memory
from gputui.inject.process.interpreter import Interpreter

FRAMES_AT_MOST, _FRAMES_PASSED_AT_MOST = 200, 1000
_THREADS_AT_MOST = 10_000
_LONGEST_TEXT = 4096
_LONGEST_TABLE = 1 << 16
_OWNED_BY_C = 3
"""The owner of a frame that stands for a call from C, and for no Python function."""
_TAGS = 3
"""The bits of a reference in a frame that are not part of the address (Python 3.14)."""


@dataclass(frozen=True, slots=True)
class PythonFrame:
    """A line of a function that is being executed."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class _Layout:
    """Offsets in bytes; following those in `frame` leads from a thread's state to its innermost frame.

    `instruction` is the offset of the instruction being executed, a number in the code or, from Python 3.11 on, an
    address (`code_start` is the offset where the code begins then).
    """

    interpreter: int
    first_thread: int
    next_thread: int
    frame: tuple[int, ...]
    code: int
    previous: int
    instruction: int
    file: int
    name: int
    first_line: int
    lines: int
    text: int
    code_start: int = 0
    owner: int = 0


_LAYOUTS = {
    (3, 8): _Layout(40, 8, 8, (24,), 32, 24, 104, 104, 112, 40, 120, 48),
    (3, 9): _Layout(40, 8, 8, (24,), 32, 24, 104, 104, 112, 40, 120, 48),
    (3, 10): _Layout(40, 8, 8, (24,), 32, 24, 96, 104, 112, 40, 120, 48),
    (3, 11): _Layout(48, 16, 8, (56, 8), 32, 48, 56, 112, 120, 72, 136, 48, code_start=184),
    (3, 12): _Layout(48, 72, 8, (56, 0), 0, 8, 56, 112, 120, 68, 136, 40, code_start=192, owner=70),
}
_DEBUG_WORDS = {
    (3, 13): (5, 9, 21, 23, 30, 29, 31, 35, 36, 39, 38, 70, 43, 33),
    (3, 14): (5, 9, 24, 26, 33, 32, 34, 40, 41, 44, 43, 80, 48, 36),
}
"""For each field of `_Layout`, the number of the word that has it among the debug offsets."""


def frames_of_main_thread(found: Interpreter, memory: Memory) -> list[PythonFrame]:
    """The functions that the main thread executes, innermost first; [] for a Python whose layout is not known.

    Raises OSError where memory that should be there is not, because the program has moved on.
    """
    layout = _layout(found, memory)
    if layout is None or found.is_free_threaded:
        return []
    return [
        frame
        for address in islice(_frames(_main_thread(found.runtime, layout, memory), layout, memory), FRAMES_AT_MOST)
        if (frame := _frame(address, found.version, layout, memory)) is not None
    ]


def _layout(found: Interpreter, memory: Memory) -> _Layout | None:
    words = _DEBUG_WORDS.get(found.version)
    if words is None:
        return _LAYOUTS.get(found.version)
    at = [int.from_bytes(memory.read(found.runtime + 8 * word, 8), "little") for word in words]
    interpreter, first_thread, next_thread, frame, *rest = at
    return _Layout(interpreter, first_thread, next_thread, (frame,), *rest)


def _main_thread(runtime: int, layout: _Layout, memory: Memory) -> int:
    """The state of the oldest thread: newer ones are put in front of it."""
    thread = memory.word(memory.word(runtime + layout.interpreter) + layout.first_thread)
    for _ in range(_THREADS_AT_MOST):
        older = memory.word(thread + layout.next_thread)
        if not older:
            break
        thread = older
    return thread


def _frames(thread: int, layout: _Layout, memory: Memory) -> Iterator[int]:
    address = thread
    for offset in layout.frame:
        address = memory.word(address + offset)
    for _ in range(_FRAMES_PASSED_AT_MOST):
        if not address:
            return
        if not layout.owner or memory.read(address + layout.owner, 1)[0] != _OWNED_BY_C:
            yield address
        address = memory.word(address + layout.previous)


def _frame(address: int, version: tuple[int, int], layout: _Layout, memory: Memory) -> PythonFrame | None:
    code = memory.word(address + layout.code) & ~_TAGS
    file = _text(memory.word(code + layout.file), layout, memory)
    function = _text(memory.word(code + layout.name), layout, memory)
    if not file or not function:
        return None
    (first_line,) = struct.unpack("<i", memory.read(code + layout.first_line, 4))
    if layout.code_start:
        instruction = memory.word(address + layout.instruction) - (code + layout.code_start)
    else:
        (instruction,) = struct.unpack("<i", memory.read(address + layout.instruction, 4))
        instruction *= 2 if version == (3, 10) else 1  # 3.10 counts instructions, which are 2 bytes long
    table = _bytes(memory.word(code + layout.lines), memory)
    spans = _spans_by_location if version >= (3, 11) else _spans_of_3_10 if version == (3, 10) else _spans_of_lnotab
    line = next((line for end, line in spans(table, first_line) if instruction < end), first_line)
    return PythonFrame(file, line, function)


def _text(address: int, layout: _Layout, memory: Memory) -> str:
    """An ASCII string, "" for any other."""
    length = memory.word(address + 16)
    if not 0 < length <= _LONGEST_TEXT:
        return ""
    text = memory.read(address + layout.text, length).decode("latin-1")
    return text if text.isascii() and text.isprintable() else ""


def _bytes(address: int, memory: Memory) -> bytes:
    size = memory.word(address + 16)
    return memory.read(address + 32, size) if size <= _LONGEST_TABLE else b""


def _spans_of_lnotab(table: bytes, line: int) -> Iterator[tuple[int, int]]:
    """Where each span of instructions ends, in bytes, and its line: `co_lnotab` of Python 3.8 and 3.9."""
    end = 0
    for step, signed in struct.iter_unpack("<Bb", table[: len(table) & ~1]):
        end += step
        yield end, line
        line += signed
    yield 1 << 62, line


def _spans_of_3_10(table: bytes, line: int) -> Iterator[tuple[int, int]]:
    """The same of `co_linetable` of Python 3.10 (PEP 626)."""
    end = 0
    for step, signed in struct.iter_unpack("<Bb", table[: len(table) & ~1]):
        if signed == -128:  # these instructions belong to no line
            end += step
            continue
        line += signed
        end += step
        yield end, line


def _spans_by_location(table: bytes, line: int) -> Iterator[tuple[int, int]]:
    """The same of `co_linetable` of Python 3.11 and newer (Objects/locations.md)."""
    end, position = 0, 0
    while position < len(table):
        kind, units = table[position] >> 3 & 15, (table[position] & 7) + 1
        position += 1
        if kind in (13, 14):
            line += _signed_number(table, position)
        elif 10 <= kind <= 12:
            line += kind - 10
        while position < len(table) and table[position] < 128:  # only the first byte of an entry has the highest bit
            position += 1
        end += 2 * units
        if kind != 15:
            yield end, line


def _signed_number(table: bytes, position: int) -> int:
    """A number of six bits a byte, the lowest first; bit 6 says that more follows, bit 0 of it all is the sign."""
    value = shift = 0
    for byte in table[position : position + 8]:
        value |= (byte & 63) << shift
        shift += 6
        if not byte & 64:
            break
    return -(value >> 1) if value & 1 else value >> 1

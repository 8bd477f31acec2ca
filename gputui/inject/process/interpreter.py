"""The CPython in a process: where it is mapped, which version it is, and the functions that loading calls."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from gputui.inject.process.images import Image, ImageError, Mapping, Memory

_LIBRARY = re.compile(r"libpython(\d)\.(\d+)[a-z]*\.so")
_PROGRAM = re.compile(r"python(\d)\.(\d+)[a-z]*$")
_FOLDER = re.compile(r"/python(\d)\.(\d+)t?/")
_C_LIBRARY = re.compile(r"(libc\.so\.6|libc-2\.\d+\.so|ld-musl-[^/]*\.so\.1|libc\.musl-[^/]*\.so\.1)( \(deleted\))?$")
_COOKIE = b"xdebugpy"
_MOST_CANDIDATES, _MOST_FILES = 8, 1000
"""How many files are searched for symbols, and how many are opened at all: a process can map 65,530."""
_INITIALIZED = {(3, 8): 12, (3, 9): 12, (3, 10): 12, (3, 11): 16, (3, 12): 16, (3, 13): 600}
"""Where `_PyRuntime` has the word that `Py_IsInitialized` returns."""
_FINISHING = {(3, 8): 600}
"""Where it has the word that is 0 until the queue of pending calls is closed; a call after that prints an error."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """`version` is (3, 11), say; `runtime` the address of `_PyRuntime`; `functions` are addresses by name."""

    version: tuple[int, int]
    is_free_threaded: bool
    runtime: int
    image: Image
    functions: dict[str, int]

    @property
    def lives(self) -> dict[int, int]:
        """The values that 32-bit words at these addresses have while the interpreter is neither starting nor ending."""
        known = ((_INITIALIZED, 1), (_FINISHING, 0))
        return {self.runtime + at[self.version]: value for at, value in known if self.version in at}


def candidates(mapped: list[Mapping], executable: str) -> list[str]:
    """The paths of the mapped files that can hold CPython: its library first, then the program itself.

    `executable` may be the dynamic loader, started with the program as its argument.
    """
    paths = dict.fromkeys(mapping.path for mapping in mapped)
    libraries = [path for path in paths if _LIBRARY.match(os.path.basename(path))]
    programs = [path for path in paths if path == executable or _PROGRAM.match(os.path.basename(path))]
    return [*libraries, *programs]


def version_by_names(mapped: list[Mapping], executable: str) -> tuple[int, int] | None:
    """The version as the names of mapped files give it, for where memory may not be read; None if none does."""
    names = [(_LIBRARY, os.path.basename(path)) for path in candidates(mapped, executable)]
    names += [(_PROGRAM, os.path.basename(executable)), *((_FOLDER, mapping.path) for mapping in mapped)]
    for pattern, name in names:
        match = pattern.search(name)
        if match:
            return int(match[1]), int(match[2])
    return None


def find(mapped: list[Mapping], executable: str, memory: Memory, names: list[str]) -> Interpreter | None:
    """The CPython of a process, None where there is none; raises OSError where its memory may not be read."""
    for image in images(mapped, candidates(mapped, executable)[:_MOST_CANDIDATES], memory):
        symbols = image.symbols(["_PyRuntime", "Py_Version", *names])
        if "_PyRuntime" in symbols:
            return _described(image, symbols, version_by_names(mapped, executable), memory)
    return None


def c_library(mapped: list[Mapping], memory: Memory) -> Image | None:
    """The C library of a process."""
    paths = dict.fromkeys(mapping.path for mapping in mapped if _C_LIBRARY.search(mapping.path))
    return next(images(mapped, paths, memory), None)


def images(mapped: list[Mapping], paths: Iterable[str], memory: Memory) -> Iterator[Image]:
    """The images of the files at `paths`, at most `_MOST_FILES`, that are mapped and are ELF files."""
    bases: dict[str, int] = {}
    for mapping in mapped:
        if not mapping.offset:
            bases.setdefault(mapping.path, mapping.start)
    for path in islice(paths, _MOST_FILES):
        if path in bases:
            with suppress(ImageError, struct.error):
                yield Image(memory, path, bases[path])


def _described(
    image: Image, symbols: dict[str, int], by_names: tuple[int, int] | None, memory: Memory
) -> Interpreter | None:
    runtime = symbols["_PyRuntime"]
    version, is_free_threaded = by_names, False
    start = memory.read(runtime, 24)
    if start[:8] == _COOKIE:  # Python 3.13 and newer
        number, free_threaded = struct.unpack("<QQ", start[8:])
        version, is_free_threaded = (number >> 24 & 0xFF, number >> 16 & 0xFF), bool(free_threaded)
    elif "Py_Version" in symbols:  # Python 3.11 and newer
        number = memory.word(symbols["Py_Version"])
        version = (number >> 24 & 0xFF, number >> 16 & 0xFF)
    return version and Interpreter(version, is_free_threaded, runtime, image, symbols)

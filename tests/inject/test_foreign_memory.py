"""Mapped files that call themselves Python's library, and memory of lies: nothing is read without bound."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from gputui.inject.process import images, interpreter
from gputui.inject.process.images import Image, Memory
from gputui.inject.process.interpreter import Interpreter
from gputui.inject.process.python_frames import frames_of_main_thread
from gputui.sources.procfs import ProcFs
from tests.attach.children import LIMIT_S, REPOSITORY, Child, Python

HIGHEST, HIGHEST_32 = (1 << 64) - 1, (1 << 32) - 1
FILE_BYTES = 1 << 16
TABLES_AT, HASH_AT, GNU_HASH_AT, SYMBOLS_AT, STRINGS_AT = 0x200, 0x400, 0x600, 0x1000, 0x2000
MEMORY_BYTES = 600 << 20
"""What the reader may take in address space beyond what it has at first."""


def elf(
    *,
    headers_at: int = 64,
    headers: int = 2,
    dynamic_bytes: int = 160,
    dynamic_at: int = TABLES_AT,
    symbols_at: int = SYMBOLS_AT,
    strings_at: int = STRINGS_AT,
    string_bytes: int = 4096,
    hash_counts: tuple[int, int] | None = None,
    gnu_hash: tuple[int, int, int, int] = (1, 1, 1, 0),
    bucket: int = 1,
    is_chain_endless: bool = False,
    load_at: int = 0,
    symbols: bytes = struct.pack("<IBBHQQ", 1, 18, 0, 1, 0x3000, 8),
) -> bytes:
    """A library with one symbol; the keywords replace its numbers."""
    end = FILE_BYTES + len(symbols) + string_bytes * (string_bytes < 1 << 30)
    file = bytearray(end) if is_chain_endless else bytearray(b"\1" * end)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62, 1, 0, headers_at, 0, 0, 64, 56, headers, 64, 0, 0
    )
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, load_at, 0, FILE_BYTES, FILE_BYTES, 4096)
    dynamic = struct.pack("<IIQQQQQQ", 2, 6, dynamic_at, dynamic_at, 0, dynamic_bytes, dynamic_bytes, 8)
    tables = [(5, strings_at), (6, symbols_at), (10, string_bytes)]
    tables += [(0x6FFFFEF5, GNU_HASH_AT)] if hash_counts is None else [(4, HASH_AT)]
    entries = b"".join(struct.pack("<qQ", tag, value) for tag, value in tables).ljust(160, b"\0")
    pieces = {
        0: header + load + dynamic,
        TABLES_AT: entries,
        HASH_AT: struct.pack("<II", *(hash_counts or (0, 0))),
        GNU_HASH_AT: struct.pack("<4I", *gnu_hash) + bytes(8) + struct.pack("<I", bucket),
        strings_at if strings_at < end else STRINGS_AT: b"\0name\0".ljust(4096, b"\0"),
        symbols_at if symbols_at < end else SYMBOLS_AT: bytes(24) + symbols,
    }
    for at, data in pieces.items():
        file[at : at + len(data)] = data
    return bytes(file)


HOSTILE = {
    "2**32 buckets": elf(gnu_hash=(HIGHEST_32, 1, 1, 0)),
    "2**32 words of a filter": elf(gnu_hash=(1, 1, HIGHEST_32, 0)),
    "no bucket": elf(gnu_hash=(0, 1, 1, 0)),
    "a bucket at 2**32": elf(bucket=HIGHEST_32),
    "a bucket before the first symbol": elf(gnu_hash=(1, HIGHEST_32, 1, 0), bucket=1),
    "a chain without an end": elf(is_chain_endless=True),
    "2**32 chains": elf(hash_counts=(1, HIGHEST_32)),
    "headers at 2**64": elf(headers_at=HIGHEST),
    "2**16 headers": elf(headers=65535),
    "a dynamic section at 2**64": elf(dynamic_at=HIGHEST - 7),
    "a dynamic section of 2**64 bytes": elf(dynamic_bytes=HIGHEST),
    "symbols at 2**64": elf(symbols_at=HIGHEST - 7),
    "strings at 2**64": elf(strings_at=HIGHEST - 7),
    "strings of 2**64 bytes": elf(string_bytes=HIGHEST),
    "a segment at 2**64": elf(load_at=HIGHEST),
    "names without an end": elf(
        symbols=struct.pack("<IBBHQQ", 5000, 18, 0, 1, 0, 8) * 200_000,
        symbols_at=0x3000,
        strings_at=0x4A0000,
        string_bytes=7 << 20,
        hash_counts=(1, 200_000),
    ),
}

MAPS = """
import ctypes, os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(file).st_size
mmap = ctypes.CDLL(None).mmap
mmap.restype, mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
assert all(mmap(None, size, 5, 2, file, 0) != ctypes.c_void_p(-1).value for _ in range(int(sys.argv[2])))
print("ready", flush=True)
input()
"""


def mapping(python: Python, path: Path, times: int = 1) -> Child:
    """A program that maps a file."""
    child = python.run([python.path, "-c", MAPS, str(path), str(times)])
    child.expect("ready")
    return child


def test_the_numbers_of_an_ordinary_library_are_read(python: Python) -> None:
    path = python.folder / "libpython3.11.so.1.0"
    path.write_bytes(elf())
    child = mapping(python, path)
    found = next(one for one in images.mappings(child.pid) if one.path == str(path))
    with Memory(child.pid) as memory:
        assert Image(memory, found.path, found.start).symbols(["name"]) == {"name": found.start + 0x3000}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_library_with_impossible_numbers_is_refused(python: Python, name: str) -> None:
    path = python.folder / "libpython3.11.so.1.0"
    path.write_bytes(HOSTILE[name])
    child = mapping(python, path)
    code = f"""
import resource
from gputui.inject import checks
from gputui.inject.refusals import Refused
size = int(open("/proc/self/statm").read().split()[0]) * 4096 + {MEMORY_BYTES}
resource.setrlimit(resource.RLIMIT_AS, (size, size))
try:
    print(checks.examine({child.pid}).python.version[0])
except Refused as refusal:
    print(refusal.rule)
print(resource.getrusage(resource.RUSAGE_SELF).ru_utime < 20)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    # The program is Python all the same: its own file is looked at next.
    assert (done.stdout, done.stderr) == ("3\nTrue\n", "")


def test_a_ring_of_frames_ends(python: Python) -> None:
    """All pointers of its runtime lead to one place, which is a thread, and a frame that belongs to C."""
    child = python.start(
        """
        import ctypes
        memory = ctypes.create_string_buffer(4096)
        address = ctypes.addressof(memory)
        memory.raw = address.to_bytes(8, "little") * 512
        memory[70] = 3
        print("ready", address, flush=True)
        input()
        """
    )
    address = int(child.expect("ready"))
    mapped = images.mappings(child.pid)
    with Memory(child.pid) as memory:
        image = next(interpreter.images(mapped, [one.path for one in mapped], memory))
        found = Interpreter((3, 12), False, address, image, {})
        assert frames_of_main_thread(found, memory) == []


@pytest.mark.parametrize("end", ["\r", "\v", "\x1c", "\u2028"])
def test_a_path_with_other_ends_of_lines_is_one_line(python: Python, end: str) -> None:
    path = python.folder / f"a{end}b c d e x f"
    path.write_bytes(b"x")
    child = mapping(python, path)
    assert str(path) in {one.path for one in images.mappings(child.pid)}
    assert str(path) in {one.path for one in ProcFs().mapped_files(child.pid)}


def test_more_mappings_than_are_read_end_with_a_whole_line(python: Python) -> None:
    folder = python.folder.joinpath(*["x" * 250] * 14)
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(b"x")
    child = mapping(python, folder / "file", 25_000)
    paths = [one.path for one in images.mappings(child.pid)]
    assert 10_000 < paths.count(str(folder / "file")) < 25_000
    assert set(paths[-100:]) == {str(folder / "file")}
    assert 10_000 < sum(1 for _ in ProcFs().mapped_files(child.pid)) < 25_000

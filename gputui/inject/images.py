"""The programs and libraries that another process has mapped, and the addresses of their exported symbols.

Symbols are read from the process's memory, not from files: a file can be in another mount namespace, replaced by an
upgrade, or stripped.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass

_ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SHARED_OBJECT = 3
_LOAD, _DYNAMIC = 1, 2
_EXECUTABLE = 1
_HASH, _STRING_TABLE, _SYMBOL_TABLE, _STRING_BYTES, _GNU_HASH = 4, 5, 6, 10, 0x6FFFFEF5
_PAGE_BYTES = 4096
_MAX_SYMBOLS = 1_000_000
_MAX_STRING_BYTES = 64 << 20
_MAX_DYNAMIC_BYTES = 1 << 16


class ImageError(Exception):
    """What is mapped is not an ELF file that this reader knows."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """One line of /proc/PID/maps."""

    start: int
    end: int
    permissions: str
    offset: int
    path: str


def mappings(pid: int) -> list[Mapping]:
    """What a process has mapped; raises OSError as the kernel does."""
    with open(f"/proc/{pid}/maps", "rb") as file:
        return list(_parse(file.read()))


def _parse(data: bytes) -> Iterator[Mapping]:
    for line in data.splitlines():
        fields = line.split(None, 5)
        start, _, end = fields[0].partition(b"-")
        path = os.fsdecode(fields[5]) if len(fields) > 5 else ""
        yield Mapping(int(start, 16), int(end, 16), fields[1].decode(), int(fields[2], 16), path)


class Memory:
    """Another process's memory. Opening it needs the rights of a debugger: it raises PermissionError without them."""

    def __init__(self, pid: int, *, is_writable: bool = False) -> None:
        self._file = os.open(f"/proc/{pid}/mem", (os.O_RDWR if is_writable else os.O_RDONLY) | os.O_CLOEXEC)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._file)

    def read(self, address: int, size: int) -> bytes:
        """`size` bytes; raises OSError where they are not all mapped."""
        data = b""
        while len(data) < size:
            part = os.pread(self._file, size - len(data), address + len(data))
            if not part:
                raise OSError(f"no memory at {address + len(data):#x}")
            data += part
        return data

    def word(self, address: int) -> int:
        """The 64-bit number at an address."""
        return int.from_bytes(self.read(address, 8), "little")

    def write(self, address: int, data: bytes) -> None:
        """Write all of `data`; raises OSError where that is not possible."""
        written = 0
        while written < len(data):
            part = os.pwrite(self._file, data[written:], address + written)
            if not part:  # the process has ended
                raise OSError(f"no memory at {address + written:#x}")
            written += part


class Image:
    """One ELF file as it is mapped; `bias` is what is added to its addresses."""

    def __init__(self, memory: Memory, path: str, base: int) -> None:
        self.path = path
        self._memory = memory
        ident, kind, self.elf_machine, _, _, headers_at, *_rest = _ELF_HEADER.unpack(
            memory.read(base, _ELF_HEADER.size)
        )
        entry_bytes, entries = _rest[3], _rest[4]
        if ident[:6] != b"\x7fELF\x02\x01" or entry_bytes != _PROGRAM_HEADER.size:
            raise ImageError(f"{path} is not a 64-bit little-endian ELF file")
        table = memory.read(base + headers_at, entry_bytes * entries)
        self._segments = [_PROGRAM_HEADER.unpack_from(table, at) for at in range(0, len(table), entry_bytes)]
        first = next((segment for segment in self._segments if segment[0] == _LOAD), None)
        if first is None:
            raise ImageError(f"{path} has no segment")
        self.bias = base - (first[3] - first[2]) if kind == _SHARED_OBJECT else 0

    def symbols(self, names: Collection[str]) -> dict[str, int]:
        """The addresses of those of `names` that the file defines."""
        tables = self._dynamic()
        if _SYMBOL_TABLE not in tables or _STRING_TABLE not in tables:
            return {}
        count = self._symbol_count(tables)
        strings = self._memory.read(tables[_STRING_TABLE], min(tables.get(_STRING_BYTES, 0), _MAX_STRING_BYTES))
        encoded = {name.encode(): name for name in names}
        data = self._memory.read(tables[_SYMBOL_TABLE], count * _SYMBOL.size)
        addresses: dict[str, int] = {}
        for name_at, _info, _other, section, value, _size in _SYMBOL.iter_unpack(data):
            name = encoded.get(strings[name_at : strings.find(b"\0", name_at)]) if section else None
            if name is not None:
                addresses[name] = value + self.bias
        return addresses

    def unused_code(self, size: int, start_of_own: bytes) -> int | None:
        """An address for `size` bytes after the end of the file's own code, in the rest of its last page.

        It holds zeros there, or something of ours from a time before.
        """
        size = -(-size // 8) * 8
        for kind, flags, _, address, _, _, memory_bytes, _ in self._segments:
            if kind == _LOAD and flags & _EXECUTABLE:
                end = self.bias + address + memory_bytes
                start: int = -(-end // 16) * 16
                if -end % _PAGE_BYTES >= size + (start - end) and self._is_free(start, size, start_of_own):
                    return start
        return None

    def _is_free(self, start: int, size: int, start_of_own: bytes) -> bool:
        data = self._memory.read(start, size)
        return not any(data) or data.startswith(start_of_own)

    def _dynamic(self) -> dict[int, int]:
        """The dynamic section's tables by tag, with their addresses in memory."""
        for kind, _, _, address, _, _, memory_bytes, _ in self._segments:
            if kind == _DYNAMIC:
                data = self._memory.read(self.bias + address, min(memory_bytes, _MAX_DYNAMIC_BYTES) & ~15)
                entries = dict(struct.iter_unpack("<qQ", data))
                return {tag: self._located(tag, value) for tag, value in entries.items()}
        return {}

    def _located(self, tag: int, value: int) -> int:
        """An address of the dynamic section: glibc has added the bias to it, musl and the kernel's vdso have not."""
        is_address = tag in (_HASH, _STRING_TABLE, _SYMBOL_TABLE, _GNU_HASH)
        return value + self.bias if is_address and value < self.bias else value

    def _symbol_count(self, tables: dict[int, int]) -> int:
        if _HASH in tables:
            return min(int.from_bytes(self._memory.read(tables[_HASH] + 4, 4), "little"), _MAX_SYMBOLS)
        if _GNU_HASH not in tables:
            return 0
        buckets, first, bloom_words, _shift = struct.unpack("<4I", self._memory.read(tables[_GNU_HASH], 16))
        buckets_at = tables[_GNU_HASH] + 16 + 8 * bloom_words
        last: int = max(struct.unpack(f"<{buckets}I", self._memory.read(buckets_at, 4 * buckets)))
        chain_at = buckets_at + 4 * buckets - 4 * first
        while last < _MAX_SYMBOLS and not self._memory.read(chain_at + 4 * last, 1)[0] & 1:
            last += 1  # the lowest bit marks the end of a bucket's chain
        return last + 1

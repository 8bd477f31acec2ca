"""The programs and libraries that another process has mapped, and the addresses of their exported symbols.

Symbols are read from the process's memory, not from files: a file can be in another mount namespace, replaced by an
upgrade, or stripped.
"""

from __future__ import annotations

import errno
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
_MAX_SEGMENTS = 128
_MAX_READ_BYTES = 64 << 20
"""More than any table that is read has: a program can put any number into its own memory."""
_MAX_MAPS_BYTES = 64 << 20
"""For 65,530 mappings, the usual limit, with paths of a kilobyte; the kernel itself allows paths of four."""
_END_OF_ADDRESSES = 1 << 63


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
    """What a process has mapped, as far as the first `_MAX_MAPS_BYTES` of its list say; raises OSError."""
    with open(f"/proc/{pid}/maps", "rb") as file:
        data = file.read(_MAX_MAPS_BYTES)
    return list(_parse(data[: data.rfind(b"\n") + 1]))


def _parse(data: bytes) -> Iterator[Mapping]:
    for line in data.split(b"\n")[:-1]:  # the kernel escapes no other end of a line in a path
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
        """`size` bytes; raises OSError where they are not all mapped, or too many."""
        _check(address, size)
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
        _check(address, len(data))
        written = 0
        while written < len(data):
            part = os.pwrite(self._file, data[written:], address + written)
            if not part:  # the process has ended
                raise OSError(f"no memory at {address + written:#x}")
            written += part


def _check(address: int, size: int) -> None:
    """Raise OSError for numbers that no memory can have; the kernel's call would not even take them."""
    if not (0 <= address < _END_OF_ADDRESSES - _MAX_READ_BYTES and 0 <= size <= _MAX_READ_BYTES):
        raise OSError(errno.EIO, f"no memory of {size} bytes at {address:#x}")


class Image:
    """One ELF file as it is mapped; `bias` is what is added to its addresses."""

    def __init__(self, memory: Memory, path: str, base: int) -> None:
        self.path = path
        self._memory = memory
        ident, kind, self.elf_machine, _, _, headers_at, *_rest = _ELF_HEADER.unpack(self._read(base, _ELF_HEADER.size))
        entry_bytes, entries = _rest[3], _rest[4]
        if ident[:6] != b"\x7fELF\x02\x01" or entry_bytes != _PROGRAM_HEADER.size:
            raise ImageError(f"{path} is not a 64-bit little-endian ELF file")
        if entries > _MAX_SEGMENTS:
            raise ImageError(f"{path} has {entries} segments")
        table = self._read(base + headers_at, entry_bytes * entries)
        self._segments = [_PROGRAM_HEADER.unpack_from(table, at) for at in range(0, len(table), entry_bytes)]
        first = next((segment for segment in self._segments if segment[0] == _LOAD), None)
        if first is None:
            raise ImageError(f"{path} has no segment")
        self.bias = base - (first[3] - first[2]) if kind == _SHARED_OBJECT else 0

    def symbols(self, names: Collection[str]) -> dict[str, int]:
        """The addresses of those of `names` that the file defines; none where its tables cannot be true."""
        try:
            return self._symbols({name.encode(): name for name in names})
        except ImageError:
            return {}

    def _symbols(self, names: dict[bytes, str]) -> dict[str, int]:
        tables = self._dynamic()
        if _SYMBOL_TABLE not in tables or _STRING_TABLE not in tables:
            return {}
        count = self._symbol_count(tables)
        strings = self._read(tables[_STRING_TABLE], min(tables.get(_STRING_BYTES, 0), _MAX_STRING_BYTES))
        longest = max(map(len, names)) + 1  # no further, as a table may have no end of a text at all
        data = self._read(tables[_SYMBOL_TABLE], count * _SYMBOL.size)
        addresses: dict[str, int] = {}
        for name_at, _info, _other, section, value, _size in _SYMBOL.iter_unpack(data):
            name = names.get(strings[name_at : name_at + longest].partition(b"\0")[0]) if section else None
            if name is not None:
                addresses[name] = value + self.bias
        return addresses

    def unused_code(self, size: int, start_of_own: bytes) -> int | None:
        """An address for `size` bytes after the end of the file's own code, in the rest of its last page.

        That memory holds zeros, or what an earlier attach of gputui has left.
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
        try:
            data = self._read(start, size)
        except ImageError:
            return False
        return not any(data) or data.startswith(start_of_own)

    def _dynamic(self) -> dict[int, int]:
        """The dynamic section's tables by tag, with their addresses in memory."""
        for kind, _, _, address, _, _, memory_bytes, _ in self._segments:
            if kind == _DYNAMIC:
                data = self._read(self.bias + address, min(memory_bytes, _MAX_DYNAMIC_BYTES) & ~15)
                entries = dict(struct.iter_unpack("<qQ", data))
                return {tag: self._located(tag, value) for tag, value in entries.items()}
        return {}

    def _located(self, tag: int, value: int) -> int:
        """An address of the dynamic section: glibc has added the bias to it, musl and the kernel's vdso have not."""
        is_address = tag in (_HASH, _STRING_TABLE, _SYMBOL_TABLE, _GNU_HASH)
        return value + self.bias if is_address and value < self.bias else value

    def _symbol_count(self, tables: dict[int, int]) -> int:
        if _HASH in tables:
            return min(int.from_bytes(self._read(tables[_HASH] + 4, 4), "little"), _MAX_SYMBOLS)
        if _GNU_HASH not in tables:
            return 0
        buckets, first, bloom_words, _shift = struct.unpack("<4I", self._read(tables[_GNU_HASH], 16))
        if not 0 < buckets <= _MAX_SYMBOLS:
            raise ImageError(f"{self.path} has {buckets} hash buckets")
        buckets_at = tables[_GNU_HASH] + 16 + 8 * bloom_words
        last: int = max(struct.unpack(f"<{buckets}I", self._read(buckets_at, 4 * buckets)))
        return self._end_of_chain(buckets_at + 4 * buckets - 4 * first, last)

    def _end_of_chain(self, chain_at: int, index: int) -> int:
        """The index after the chain's last word, from `index` on: its lowest bit is set."""
        while index < _MAX_SYMBOLS:
            address = chain_at + 4 * index
            words = self._read(address, _PAGE_BYTES - address % _PAGE_BYTES)  # the next page may not be mapped
            ends = next((at for at in range(0, len(words), 4) if words[at] & 1), None)
            if ends is not None:
                return min(index + ends // 4 + 1, _MAX_SYMBOLS)
            index += max(1, len(words) // 4)
        return _MAX_SYMBOLS

    def _read(self, address: int, size: int) -> bytes:
        """Memory that the file's own numbers name; raises ImageError if there is none."""
        try:
            return self._memory.read(address, size)
        except PermissionError:
            raise
        except OSError as error:
            raise ImageError(f"{self.path}: {error}") from error

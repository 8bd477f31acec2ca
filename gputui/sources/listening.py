"""Finds listening sockets and the processes that hold them: the kernel's socket tables, joined with descriptors."""

from __future__ import annotations

import os
import re
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from gputui.sources.procfs import ProcFs, read_file

_LISTENING = "0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]")


class Listening(NamedTuple):
    """A listening socket; ranks of one user may listen on the same address, each with a socket of its own."""

    family: socket.AddressFamily
    address: str
    port: int
    uid: int
    inode: int

    @property
    def shared(self) -> tuple[int, str, int]:
        """The address, which the sockets of several ranks have in common."""
        return self.family, self.address, self.port

    @property
    def target(self) -> tuple[str, int]:
        """Where to connect: a socket that listens on all addresses is reached through the loopback."""
        everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}
        return everywhere.get(self.address, self.address), self.port


def listening_on(proc: ProcFs, pid: int, port: int) -> list[Listening]:
    """All sockets that listen on a port in the network namespace of a process. Raises OSError."""
    found = []
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with suppress(FileNotFoundError):  # a kernel without IPv6
            table = read_file(f"{proc.root}/{pid}/net/{name}").decode("ascii", errors="replace")
            found += [each for each in _sockets(table, family) if each.port == port]
    return found


def _sockets(table: str, family: socket.AddressFamily) -> Iterator[Listening]:
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10 or fields[3] != _LISTENING:
            continue
        with suppress(ValueError, struct.error):
            address, _, port = fields[1].partition(":")
            yield Listening(family, _address(address, family), int(port, 16), int(fields[7]), int(fields[9]))


def _address(digits: str, family: socket.AddressFamily) -> str:
    """An address from the table, in which the kernel prints words of 32 bits in this machine's byte order."""
    order = "<" if sys.byteorder == "little" else ">"
    count = len(digits) // 8
    words = [int(digits[8 * place : 8 * place + 8], 16) for place in range(count)]
    packed = struct.pack(f"{order}{count}I", *words)
    return socket.inet_ntop(family, packed)


def inodes_of(proc: ProcFs, pid: int) -> frozenset[int]:
    """The inodes of the sockets that a process has open. Raises OSError where its descriptors may not be seen."""
    found = set()
    with os.scandir(f"{proc.root}/{pid}/fd") as entries:
        for entry in entries:
            with suppress(OSError):  # closed meanwhile
                match = _SOCKET.fullmatch(os.readlink(entry.path))
                if match:
                    found.add(int(match[1]))
    return frozenset(found)


def holders_of(proc: ProcFs, sockets: list[Listening]) -> dict[int, int]:
    """By inode, the PID of a process that has the socket open, among the processes whose descriptors this user may see.

    A child that has inherited a socket has it open, too: the lowest PID counts, which is the parent's as a rule.
    """
    wanted = {each.inode for each in sockets}
    found: dict[int, int] = {}
    for pid in sorted(proc.pids(), reverse=True):
        with suppress(OSError):
            found.update(dict.fromkeys(wanted & inodes_of(proc, pid), pid))
    return found


def shares_network(proc: ProcFs, pid: int) -> bool:
    """Whether a process has the network namespace of this one. Raises OSError."""
    return proc.link(pid, "ns/net") == proc.link("self", "ns/net")

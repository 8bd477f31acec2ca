"""The limits of this process's control groups, which end a container or a job long before the host is full."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from gputui.model.machine.host import Space

_RENEW_S = 10.0
_MOST_BYTES = 64 << 10
"""How much of one file is read: `memory.stat` has about 1 KiB."""


class _Names(NamedTuple):
    """Files in one version of the interface; `cached` is the entry in memory.stat that the kernel reclaims first."""

    limit: str
    used: str
    cached: str
    cpus: str


_SECOND = _Names("memory.max", "memory.current", "inactive_file", "cpuset.cpus.effective")
_FIRST = _Names("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "cpuset.cpus")
_NO_LIMIT_BYTES = 1 << 60
"""Without a limit, the first version has a number near 2^63."""


class _Group(NamedTuple):
    folder: str
    names: _Names


class CgroupLimits:
    """The lowest limits of this process's groups and their parents, which are found anew every `_RENEW_S` seconds."""

    def __init__(
        self,
        proc: str | os.PathLike[str] = "/proc",
        sys: str | os.PathLike[str] = "/sys",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._membership = f"{os.fspath(proc)}/self/cgroup"
        self._root = f"{os.fspath(sys)}/fs/cgroup"
        self._clock = clock
        self._until = float("-inf")
        self._tightest: tuple[int, _Group] | None = None
        self._processors: float | None = None

    def memory(self) -> Space | None:
        """The lowest limit of memory, and the bytes in use that count against it; None without a limit."""
        self._renew()
        if self._tightest is None:
            return None
        limit_bytes, (folder, names) = self._tightest
        used = _number(f"{folder}/{names.used}")
        if used is None:
            return None
        return Space(limit_bytes, max(0, int(used) - _counted(f"{folder}/memory.stat", names.cached)))

    def processors(self) -> float | None:
        """How many processors' time may be used, None where the groups allow all of the host's."""
        self._renew()
        return self._processors

    def _renew(self) -> None:
        now = self._clock()
        if now < self._until:
            return
        self._until = now + _RENEW_S
        groups = list(self._groups())
        limits = [(int(limit), group) for group in groups if (limit := _number(f"{group.folder}/{group.names.limit}"))]
        self._tightest = min((one for one in limits if one[0] < _NO_LIMIT_BYTES), default=None)
        processors = [share for group in groups for share in (_quota(group.folder), _listed(group)) if share]
        lowest = min(processors, default=None)
        self._processors = lowest if lowest is not None and lowest < (os.cpu_count() or 0) else None

    def _groups(self) -> Iterator[_Group]:
        """The groups of this process, each followed by its parents; a container sees its own group as the root."""
        for line in _text(self._membership).splitlines():
            _, controllers, path = [*line.split(":", 2), "", ""][:3]
            for controller in controllers.split(","):
                names = _FIRST if controller else _SECOND
                while True:
                    yield _Group(f"{self._root}/{controller}{path}".rstrip("/"), names)
                    if path in ("", "/"):
                        break
                    path = os.path.dirname(path)


def _text(path: str) -> str:
    with suppress(OSError, UnicodeDecodeError), open(path, encoding="ascii") as file:
        return file.read(_MOST_BYTES)
    return ""


def _number(path: str) -> float | None:
    """The number in a file; None where it says "max", or does not exist."""
    with suppress(ValueError):
        return int(_text(path))
    return None


def _counted(path: str, name: str) -> int:
    for line in _text(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdigit():
            return int(value)
    return 0


def _quota(folder: str) -> float | None:
    """The quota of processor time: how many processors may be busy on average, None without a quota."""
    words = _text(f"{folder}/cpu.max").split()
    if len(words) != 2:
        words = [_text(f"{folder}/cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    quota, period = (int(word) if word.isdigit() else 0 for word in words)
    return quota / period if quota and period else None  # "max", or -1, is no quota


def _listed(group: _Group) -> float | None:
    """How many processors the group's cpuset names, in a list such as "0-3,8"; None without a list."""
    count = 0
    for part in _text(f"{group.folder}/{group.names.cpus}").strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last.isdigit() or part == first):
            count += int(last or first) - int(first) + 1
    return count or None

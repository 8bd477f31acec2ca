"""Files that a program reads what it is to run from, and writes the outcome to."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress

from gputui.inject.process_facts import Facts

_FOLDERS = ("/tmp", "/dev/shm")
"""Where a script is written for a program that cannot see this process's files."""


class ScriptFile:
    """A file that the program can open at `path`; in memory if it can see this process's."""

    def __init__(self, facts: Facts, data: bytes) -> None:
        self._removed_at = ""
        if facts.uid == os.geteuid() and not facts.is_elsewhere:
            self._descriptor = os.memfd_create("gputui", os.MFD_CLOEXEC)
            self.path = f"/proc/{os.getpid()}/fd/{self._descriptor}"
        else:
            self.path, self._descriptor = _file_in(facts)
            self._removed_at = f"/proc/{facts.pid}/root{self.path}"
            if facts.uid != os.geteuid():
                os.fchown(self._descriptor, facts.uid, -1)
        os.pwrite(self._descriptor, data, 0)

    def outcome(self) -> str:
        """What the program has written: "loaded", a reason, or "" if nothing yet."""
        data = os.pread(self._descriptor, 4096, 0)
        return data[1 : data.find(b"\0", 1)].decode(errors="replace") if data[:1] == b"\0" else ""

    def is_begun(self) -> bool:
        """Whether the program has read it, and has said so by its first byte."""
        return os.pread(self._descriptor, 1, 0) in (b"\0", b"\1")

    def empty(self) -> None:
        """Leave nothing in it."""
        os.ftruncate(self._descriptor, 0)

    def close(self) -> None:
        """Remove it; harmless if that was done."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            if self._removed_at:
                os.unlink(self._removed_at)


def _file_in(facts: Facts) -> tuple[str, int]:
    """A new file in a folder of the program's in which files can be made: its path there and a descriptor."""
    name = f"gputui-{secrets.token_hex(16)}"
    for folder in _FOLDERS:
        path = f"{folder}/{name}"
        with suppress(OSError):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            return path, os.open(f"/proc/{facts.pid}/root{path}", flags, 0o600)
    raise OSError(f"no file can be made in its {' and '.join(_FOLDERS)}")

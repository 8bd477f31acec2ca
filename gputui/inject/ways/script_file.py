"""Files from which the program reads what it is to run, and into which it writes the outcome."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gputui.inject.process.foreign_files import ForeignFolder, root_of
from gputui.inject.process.process_facts import Facts

_FOLDERS = ("/tmp", "/dev/shm")
"""Where a script is written for a program that cannot see this process's files."""


class ScriptFile:
    """A file that the program can open at `path`: in memory if it sees this process's files, else in one of `_FOLDERS`.

    There it is made and removed with the rights of the program's user: root touches nothing that this user may not.
    """

    def __init__(self, facts: Facts, data: bytes) -> None:
        self._facts = facts
        self._folder: ForeignFolder | None = None
        self._name = f"gputui-{secrets.token_hex(16)}"
        if facts.uid == os.geteuid() and not facts.is_elsewhere:
            self._descriptor = os.memfd_create("gputui", os.MFD_CLOEXEC)
            self.path = f"/proc/{os.getpid()}/fd/{self._descriptor}"
        else:
            self._folder, self._descriptor = _new_file(facts, self._name)
            self.path = f"{self._folder.path}/{self._name}"
        try:
            os.pwrite(self._descriptor, data, 0)
        except OSError:
            self.close()
            raise

    def outcome(self) -> str:
        """What the program has written: "loaded", a reason, or "" if nothing yet."""
        data = os.pread(self._descriptor, 4096, 0)
        return data[1 : data.find(b"\0", 1)].decode(errors="replace") if data[:1] == b"\0" else ""

    def is_begun(self) -> bool:
        """Whether the program has read the file, which it says by the first byte."""
        return os.pread(self._descriptor, 1, 0) in (b"\0", b"\1")

    def empty(self) -> None:
        """Leave nothing in the file."""
        os.ftruncate(self._descriptor, 0)

    def close(self) -> None:
        """Remove the file; harmless if that was done."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            if self._folder is not None:
                with self._folder, _rights_of(self._facts), suppress(OSError):  # its user may have removed it
                    self._folder.remove(self._name)


def _new_file(facts: Facts, name: str) -> tuple[ForeignFolder, int]:
    """A new file in the first of the program's folders in which its user can make one."""
    for path in _FOLDERS:
        with suppress(OSError):
            folder = ForeignFolder(root_of(facts.pid), path, is_link_followed=True)
            try:
                with _rights_of(facts):
                    return folder, folder.create(name)
            except BaseException:
                folder.close()
                raise
    raise OSError(f"no file can be made in its {' and '.join(_FOLDERS)}")


@contextmanager
def _rights_of(facts: Facts) -> Iterator[None]:
    """Access files as the program's user, which root can; the process must do nothing else meanwhile."""
    if facts.uid == os.geteuid():
        yield
        return
    own = os.geteuid(), os.getegid(), os.getgroups()
    try:
        os.setgroups(facts.other_groups)
        os.setegid(facts.gid)
        os.seteuid(facts.uid)
        yield
    finally:
        os.seteuid(own[0])
        os.setegid(own[1])
        os.setgroups(own[2])

"""File descriptors of ours in a program that may close every number it finds, and get ours for files of its own."""

from __future__ import annotations

import os


class NotOursError(Exception):
    """The program has closed our descriptors: their numbers may be its own files by now."""

    def __init__(self) -> None:
        super().__init__("the program has closed the probe's file descriptors")


class Descriptor:
    """A number, and how to tell that what is behind it is still what we opened."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._file = _file_behind(fd)

    @property
    def is_ours(self) -> bool:
        """Whether the number still stands for what we opened."""
        return self._file is not None and _file_behind(self._fd) == self._file

    def check(self) -> None:
        """Raise NotOursError where the number does not stand for what we opened any more."""
        if not self.is_ours:
            raise NotOursError

    def close(self) -> None:
        """Close it, unless it is somebody else's."""
        if self.is_ours:
            os.close(self._fd)


def _file_behind(fd: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino

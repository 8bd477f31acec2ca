"""Tells which versions of NCCL may be asked, and which version a process has loaded."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from gputui.inject.process.foreign_files import ForeignFolder
from gputui.sources.procfs import ProcFs

Version = tuple[int, int, int]


class Refusal(NamedTuple):
    """Versions from `first` on and before `end` that are not asked, and why."""

    first: Version
    end: Version
    reason: str


_UPGRADE = "NCCL can be upgraded without PyTorch (package nvidia-nccl-cu12 or -cu13); 2.29.2 and newer may be asked."
_REFUSALS = (
    Refusal((0, 0, 0), (2, 24, 0), "it has no RAS, which NCCL has since 2.24"),
    Refusal((2, 24, 0), (2, 27, 3), "a question while a communicator is made ends the job (NVIDIA/nccl#1669, #1718)"),
    Refusal((2, 27, 3), (2, 29, 2), "a question where a rank is missing can end the job (NVIDIA/nccl#1762)"),
    Refusal((2, 29, 7), (2, 29, 8), "a question ended a job of 256 GPUs (NVIDIA/nccl#2346)"),
)
"""From reports of NCCL's users and answers of its developers; 2.29.2 is the first version with the repair of #1762."""

_NAME = re.compile(rb"NCCL version (\d{1,4})\.(\d{1,4})\.(\d{1,4})(?!\d)")
_FILE = re.compile(r"/libnccl\.so(\.\d+)*$")
_MOST_BYTES = 32 << 20
"""How much of the library is read: its texts come before the code for GPUs, in the first 3 MiB of 2.28."""
_PART_BYTES = 1 << 20
_LONGEST_NAME = 64


def refusal_of(version: Version) -> str:
    """Why a version is not asked, with the remedy; "" for one that may be asked."""
    for first, end, reason in _REFUSALS:
        if first <= version < end:
            return f"NCCL {words_of(version)} is not asked: {reason}. {_UPGRADE}"
    return ""


def words_of(version: Version) -> str:
    """ "2.29.3"."""
    return ".".join(map(str, version))


def version_of(proc: ProcFs, pid: int) -> Version | None:
    """The version of the NCCL library that a process has loaded; None where no loaded library tells its version.

    Raises OSError where the process's mappings cannot be read.
    """
    for mapping in proc.mapped_files(pid):
        if not _FILE.search(mapping.path):
            continue
        folder, _, name = mapping.path.rpartition("/")
        try:
            with ForeignFolder(proc.root_of(pid), folder) as opened:
                return _version_in(opened.opened(name), mapping.inode)
        except OSError:
            continue
    return None


def _version_in(descriptor: int, inode: int) -> Version | None:
    """The version in the text of an open library, which is then closed; None if it is not the mapped file."""
    try:
        if os.fstat(descriptor).st_ino != inode:
            return None
        tail, done = b"", 0
        while done < _MOST_BYTES and (part := os.read(descriptor, _PART_BYTES)):
            match = _NAME.search(tail + part)
            if match:
                return int(match[1]), int(match[2]), int(match[3])
            tail, done = part[-_LONGEST_NAME:], done + len(part)
    finally:
        os.close(descriptor)
    return None

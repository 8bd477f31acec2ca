"""Keeps what libraries write off the terminal and out of documents: NVML's stub prints a banner on descriptor 1."""

from __future__ import annotations

import fcntl
import io
import os
import sys
from contextlib import suppress
from typing import TextIO

_STANDARD = {1: "stdout", 2: "stderr"}


def mute_libraries() -> None:
    """From now on descriptors 1 and 2 lead nowhere, and `sys.stdout` and `sys.stderr` have descriptors of their own.

    For good: threads may be in a library until the process ends. Where no descriptor is free, all stays as it is.
    """
    with suppress(OSError):
        for number, name in _STANDARD.items():
            _mute(number, name)


def of_child(stream: TextIO | None) -> int | None:
    """The descriptor that a child process gets for this stream; None: the child inherits 1 or 2, as `Popen` does."""
    try:
        return stream.fileno() if stream else None
    except (OSError, ValueError):
        return None


def _mute(number: int, name: str) -> None:
    stream = getattr(sys, name)
    if stream is not None:
        own = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)
        stream.flush()
        setattr(sys, name, _like(stream, own))
        setattr(sys, f"__{name}__", getattr(sys, name))
    elif _is_open(number):
        return  # not ours: a file that was opened since got the number of a closed stream
    null = os.open(os.devnull, os.O_WRONLY)
    if null != number:
        os.dup2(null, number)
        os.close(null)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _like(stream: TextIO, descriptor: int) -> TextIO:
    """A stream that writes to `descriptor` as `stream` does to its own."""
    return io.TextIOWrapper(
        open(descriptor, "wb", closefd=False),
        stream.encoding,
        stream.errors,
        line_buffering=stream.isatty() or stream is sys.stderr,
    )

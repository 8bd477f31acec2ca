"""Writing to standard output (data) and standard error (messages)."""

from __future__ import annotations

import os
import sys

from gputui.errors import GputuiError


def put(text: str) -> None:
    """Write `text` to standard output and flush it; a character that its encoding lacks becomes "?".

    Raises BrokenPipeError where the reader has gone away, `GputuiError` for any other failure, such as a full disk.
    """
    if sys.stdout is None:
        cause = "Standard output is closed."
        raise GputuiError(cause)
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
    except OSError as error:
        # The interpreter flushes standard output once more at exit, and would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        cause = f"Standard output cannot be written: {error.strerror}."
        raise GputuiError(cause) from None


def narrate(text: str) -> None:
    """Write a line to standard error, unless it is closed.

    Control characters become "?": a message may quote a file name or a command that somebody else chose.
    """
    if sys.stderr is not None:
        line = "".join(character if character.isprintable() else "?" for character in text)
        sys.stderr.write(f"gputui: {line}\n")

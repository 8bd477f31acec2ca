"""Standard output is data, standard error is narration."""

from __future__ import annotations

import os
import sys

from gputui.errors import GputuiError


def put(text: str) -> None:
    """Write `text` to standard output, at once, in its encoding ("?" for what it cannot say).

    A reader that went away is a BrokenPipeError; what else keeps it from being written (a full disk) a `GputuiError`.
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
    """Write a line to standard error; where that is closed, nobody wants to hear it.

    What a terminal would obey becomes "?": a sentence may name a file or a command of somebody else's.
    """
    if sys.stderr is not None:
        line = "".join(character if character.isprintable() else "?" for character in text)
        sys.stderr.write(f"gputui: {line}\n")

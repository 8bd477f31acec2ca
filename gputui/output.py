"""Writing to standard output (data) and standard error (messages)."""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress
from itertools import accumulate
from typing import TextIO

from gputui.errors import GputuiError
from gputui.settings import Settings
from gputui.terminals import CANNOT_SHOW

BOLD, RED, YELLOW, NORMAL = "\x1b[1m", "\x1b[31m", "\x1b[33m", "\x1b[0m"
"""SGR sequences for text that is printed on a terminal."""


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
        _give_up(sys.stdout)
        if isinstance(error, BrokenPipeError):
            raise
        cause = f"Standard output cannot be written: {error.strerror}."
        raise GputuiError(cause) from None


def put_document(document: object) -> None:
    """Write a JSON document to standard output, in a line."""
    import json

    put(json.dumps(document, allow_nan=False) + "\n")


def narrate(text: str) -> None:
    """Write a line to standard error, unless it is closed.

    Control characters become "?": a message may quote a file name or a command that somebody else chose.
    """
    if sys.stderr is not None:
        line = "".join(character if character.isprintable() else "?" for character in text)
        try:
            sys.stderr.write(f"gputui: {line}\n")
        except OSError:  # nobody can be told; the exit status still says it
            _give_up(sys.stderr)


def close_output() -> bool:
    """Flush standard output before the program ends; False if that fails."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _give_up(sys.stdout)
        return False
    return True


def _give_up(stream: TextIO) -> None:
    """Point the stream at /dev/null: the interpreter flushes it once more at exit, and would report the error again."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(null, stream.fileno(), inheritable=False)
        os.close(null)


def typed(question: str) -> str:
    """The user's answer to `question`, in lower case; "" where there is no terminal, or it has gone."""
    if sys.stdin is None or not sys.stdin.isatty() or sys.stderr is None:
        return ""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower()


def has_reader() -> bool:
    """Whether the program that reads standard output through a pipe is still there; True for anything but a pipe."""
    if sys.stdout is None:
        return False
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return not any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def output_width(without_terminal: int) -> int:
    """The columns of the terminal (or of $COLUMNS), or `without_terminal` where there is none."""
    import shutil

    return shutil.get_terminal_size((without_terminal, 24)).columns


def is_in_color(settings: Settings) -> bool:
    """Whether printed text is coloured: only on a terminal that has colours, unless the settings say otherwise."""
    if sys.stdout is None or not sys.stdout.isatty():
        return False
    return os.environ.get("TERM", "") not in CANNOT_SHOW if settings.color == "auto" else settings.color != "none"


def columns_of(text: str) -> int:
    """How many columns a text takes: a letter of East Asia takes two, a mark over a letter none."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    from unicodedata import category, east_asian_width

    if category(character) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def padded(text: str, width: int) -> str:
    """The text in at least `width` columns."""
    return text + " " * (width - columns_of(text))


def cut(text: str, width: int) -> str:
    """The text in at most `width` columns; "~" marks a cut."""
    if columns_of(text) <= width:
        return text
    if text.isascii():
        return text[: width - 1] + "~"
    ends = accumulate(map(_columns, text))
    return text[: sum(end < width for end in ends)] + "~"

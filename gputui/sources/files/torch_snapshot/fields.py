"""Reads the fields of a snapshot's entries: checks their types, and has defaults for what an older PyTorch lacks."""

from __future__ import annotations

from typing import Any, NoReturn

from gputui.model.decode import MAX_TEXT
from gputui.model.printable import printable

LARGEST = 2**63 - 1
"""Larger numbers are neither addresses nor sizes, and do not fit into a column of a trace."""
DEFAULT_POOL = (0, 0)
Entry = dict[str, Any]


class FormatError(Exception):
    """An entry has what no snapshot of PyTorch's has; the message is a part of a sentence."""


class LeftOut:
    """Counts the rows of a file that are left out because of an impossible value; `first` says what the first has."""

    def __init__(self) -> None:
        self.rows = 0
        self.first = ""

    def add(self, error: FormatError) -> None:
        """Count a row."""
        self.rows += 1
        self.first = self.first or str(error)


def integer(entry: Entry, key: str, default: int | None = None) -> int:
    """A whole number; raises FormatError for anything else, and for a missing one without a default."""
    value = entry.get(key, default)
    if type(value) is not int or not _fits(value):
        fail(key, value)
    return value


def text(entry: Entry, key: str, default: str = "") -> str:
    """A text, with control characters escaped."""
    value = entry.get(key, default)
    if type(value) is not str:
        fail(key, value)
    return printable(value[:MAX_TEXT])


def entries(entry: Entry, key: str) -> list[Entry]:
    """A list of dictionaries; [] where it is missing."""
    values = entry.get(key)
    if values is None:
        return []
    if type(values) is not list or not all(type(value) is dict for value in values):
        fail(key, values)
    return values


def pool_id(entry: Entry, key: str) -> tuple[int, int]:
    """The id of a pool; that of the default pools where it is missing."""
    pool = entry.get(key, DEFAULT_POOL)
    if type(pool) is not tuple or [type(part) for part in pool] != [int, int] or not all(map(_fits, pool)):
        fail(key, pool)
    return pool[0], pool[1]


def _fits(number: int) -> bool:
    return -LARGEST <= number <= LARGEST


def fail(key: str, value: object) -> NoReturn:
    """Raise the FormatError for a field."""
    shown = f"{type(value).__name__}" if isinstance(value, (list, dict, tuple)) else printable(repr(value))[:60]
    cause = f"{key!r} is {shown}"
    raise FormatError(cause)

"""Whose a tensor is, as facts: only the viewer writes them as text (`gputui/model/attached/owners.py`)."""

from __future__ import annotations

from typing import NamedTuple, Tuple, Union

Owner = Tuple[str, ...]
"""The fields of `OwnerName` there, without empty ones at the end: (path, place, kind, of, part, exception, holder)."""
PLACE, KIND, PART, EXCEPTION, HOLDER = 1, 2, 4, 5, 6

# The values of `OwnerKind` there.
STATE, PARAM_GROUP, ARGUMENT, RESULT = "state", "param_group", "argument", "result"
COPY, UNNAMED, CYCLE, WORDS = "copy", "unnamed", "cycle", "words"
BELOW = "[...]"
"""Stands in a path for the steps from one object to others of its class below it, as in `last[...].hidden`."""
# The keys of `EXCEPTIONS` there.
HELD, OF_CELL, LAST, LOST, HANDLED = "held", "of_cell", "last", "lost", "handled"


class InException(NamedTuple):
    """Where a local variable is that an exception keeps: `exception` is a key of `EXCEPTIONS`, `holder` as there."""

    place: str
    exception: str
    holder: str = ""


Where = Union[str, InException]
"""The place of a variable, "train.py:23 in step", "" for a global."""


def place_of(where: Where) -> str:
    """The line and the function alone."""
    return where.place if isinstance(where, InException) else where


def placed(owner: Owner, where: Where) -> Owner:
    """This owner, whose path begins with a variable that is at `where`."""
    if not where:
        return owner
    path, *rest = owner
    if not isinstance(where, InException):
        return (path, where, *rest[1:])
    kind, of, part = [*rest[1:], "", "", ""][:3]
    return (path, where.place, kind, of, part, where.exception, where.holder)


def owner_of(name: str, where: Where) -> Owner:
    """The owner named `name`: a variable that is at `where`, or what it leads to."""
    if not where:
        return (name,)
    return (name, where) if isinstance(where, str) else placed((name,), where)


def gradient_of(owner: Owner) -> Owner:
    """The owner of the gradient of this owner's tensor."""
    if len(owner) <= KIND or not owner[KIND]:
        return (f"{owner[0]}.grad", *owner[1:])
    path, place, kind, of, part, *exception = [*owner, "", ""][: max(PART + 1, len(owner))]
    return (path, place, kind, of, f"{part}.grad", *exception)


def field(owner: Owner, number: int) -> str:
    """One of the owner's fields, "" if it is not there."""
    return owner[number] if number < len(owner) else ""

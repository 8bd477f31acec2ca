"""A reading is a value, or absent with a reason; an error is never a number. Other trouble is a `Problem`.

Code decides by kinds alone: the texts are for people.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeVar, Union

T = TypeVar("T")


class AbsentKind(str, Enum):
    """Why there is no value, as far as code depends on it."""

    FAILED = "failed"
    """It could not be read or is not known, for any reason but the following."""
    NOT_SUPPORTED = "not_supported"
    """This device does not have it."""
    NOT_READ_YET = "not_read_yet"
    ON_REQUEST = "on_request"
    """Reading the value is expensive, so it is read only while it is on screen."""
    NOT_SAMPLED = "not_sampled"
    """NVML took no sample in the last interval."""


class Absent(NamedTuple):
    """Why there is no value; `reason` is for people: "not supported by this device", "GPU is lost"."""

    reason: str
    kind: AbsentKind = AbsentKind.FAILED


Reading = Union[T, Absent]

NOT_READ = Absent("not read yet", AbsentKind.NOT_READ_YET)
NOT_LOOKED_AT = Absent("read only while it is on screen", AbsentKind.ON_REQUEST)


def value_of(reading: Reading[T]) -> T | None:
    """The value, or None where it is absent, for callers that need no reason."""
    return None if isinstance(reading, Absent) else reading


class ProblemKind(str, Enum):
    """What a screen can offer to do about a problem."""

    OTHER = "other"
    LOOK_ON_REQUEST = "look_on_request"
    """A look that the user asks for would tell more."""


class Problem(NamedTuple):
    """A sentence about something in a process that could not be read."""

    text: str
    kind: ProblemKind = ProblemKind.OTHER

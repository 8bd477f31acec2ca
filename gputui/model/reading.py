"""A reading is a value or absent with its reason; an error is never a number. What else went wrong is a problem.

Code decides by kinds. The texts are for people, and nothing reads them back.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeVar, Union

T = TypeVar("T")


class AbsentKind(str, Enum):
    """Why there is no value, as far as anything depends on it."""

    FAILED = "failed"
    """It could not be read, or is not known: everything that is not one of the following."""
    NOT_SUPPORTED = "not_supported"
    """This device does not have it."""
    NOT_READ_YET = "not_read_yet"
    ON_REQUEST = "on_request"
    """Reading it is expensive, so it is read only while it is on screen."""
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
    """The value, or None where it is absent: for documents and sums, which give the reason elsewhere."""
    return None if isinstance(reading, Absent) else reading


class ProblemKind(str, Enum):
    """What can be done about a problem, as far as a screen offers it."""

    OTHER = "other"
    LOOK_ON_REQUEST = "look_on_request"
    """A look that the user asks for would tell more."""


class Problem(NamedTuple):
    """Something about a process that could not be read, in a sentence."""

    text: str
    kind: ProblemKind = ProblemKind.OTHER

"""A reading is a value or absent with its reason; an error is never a number."""

from __future__ import annotations

from typing import NamedTuple, TypeVar, Union

T = TypeVar("T")


class Absent(NamedTuple):
    """Why there is no value: "not supported by this device", "insufficient permissions", "GPU is lost"."""

    reason: str


Reading = Union[T, Absent]

NOT_READ = Absent("not read yet")
NOT_LOOKED_AT = Absent("read only while somebody looks at it")


def value_of(reading: Reading[T]) -> T | None:
    """The value, or None where it is absent: for documents and sums, where the reason stands elsewhere."""
    return None if isinstance(reading, Absent) else reading

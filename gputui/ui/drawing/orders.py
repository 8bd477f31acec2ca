"""Ways to sort a table, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from gputui.model.reading import Reading, value_of

R = TypeVar("R")


class Order(NamedTuple):
    """One way to sort: the letter after `o`, the words in the menu, and the value of a row.

    Its name is that of the column that it sorts by.
    """

    name: str
    letter: str
    title: str
    value: Callable[[Any], tuple[object, ...]]
    is_descending: bool = False


def number(reading: Reading[float]) -> tuple[object, ...]:
    """The value of a reading: what is absent is less than any number."""
    value = value_of(reading)
    return (value is not None, value or 0)


def in_order(rows: Iterable[R], order: Order, *, is_reversed: bool) -> list[R]:
    """The rows, sorted; those that are equal stay as they were."""
    return sorted(rows, key=order.value, reverse=order.is_descending != is_reversed)

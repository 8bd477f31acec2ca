"""Lists Python's objects without holding a tuple that another thread is in the middle of making.

In `tuple(row for row in rows)`, Python raises SystemError in that thread if anything else refers to the tuple by the
time it is full. So unfinished tuples are let go in the same call of C that lists them: no other thread runs in between.
An unfinished tuple has places without an element, but for the moment at which it is full and gets larger.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, compress, count, islice, repeat
from operator import getitem, is_, lt, methodcaller, setitem
from typing import Any

_call = methodcaller("__call__")


def classes_of(list_objects: Callable[[], list[Any]], at_most: int) -> tuple[list[type], int]:
    """The classes of the first so many objects listed, and how many were listed."""
    held: list[list[Any]] = []  # the iterators, which are listed as well, refer to this alone
    lengths: list[int] = []
    classes: list[type] = []
    firsts = islice(map(type, chain.from_iterable(held)), at_most)  # which lets the rest go
    _do(
        partial(held.extend, map(_call, (list_objects,))),
        partial(lengths.extend, map(len, held)),
        partial(classes.extend, firsts),
        held.clear,
    )
    return classes, lengths[0]


def of_classes(list_objects: Callable[[], Iterable[Any]], idents: set[int]) -> list[Any]:
    """Those of the objects listed whose classes have these ids; `tuple` is none of them."""
    held: list[Iterable[Any]] = []  # the iterators, which are listed as well, refer to this alone
    found: list[Any] = []
    # Both iterators come to their ends, where they let the list go: hence `None` after the last object.
    classes = map(id, map(type, chain.from_iterable(held)))
    chosen = compress(chain(chain.from_iterable(held), repeat(None)), map(idents.__contains__, classes))
    _do(partial(held.extend, map(_call, (list_objects,))), partial(found.extend, chosen), held.clear)
    return found


def finished(list_objects: Callable[[], list[Any]], first: int = 0, last: int | None = None) -> list[Any]:
    """The objects listed from number `first` on and before `last`, with None in the place of an unfinished tuple."""
    held: list[list[Any]] = []  # all objects, then those asked for; the iterators, listed as well, refer to this alone
    tuples: list[int] = []
    part: Iterator[Any] = map(getitem, _repeated(held, 0), (slice(first, last),))  # in a list that is not listed
    are_tuples = map(is_, map(type, chain.from_iterable(map(getitem, repeat(held, 1), (1,)))), repeat(tuple))
    lengths, full = map(len, map(gc.get_referents, _tuples(held, tuples))), map(len, _tuples(held, tuples))
    let_go = map(setitem, _repeated(held, 1), compress(tuples, map(lt, lengths, full)), repeat(None))
    _do(
        partial(held.extend, map(_call, (list_objects,))),
        partial(held.extend, part),
        partial(tuples.extend, compress(count(), are_tuples)),
        partial(any, let_go),
        partial(held.__delitem__, 0),
    )
    return held.pop()


def _repeated(held: list[list[Any]], number: int) -> Iterator[list[Any]]:
    return map(getitem, repeat(held), repeat(number))


def _tuples(held: list[list[Any]], places: list[int]) -> Iterator[Any]:
    return map(getitem, _repeated(held, 1), places)


def _do(*functions: Callable[[], object]) -> None:
    """Call these, which return nothing, one after the other in one call of C."""
    any(map(_call, functions))

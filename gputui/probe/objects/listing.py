"""Listing Python's objects, holding none of the tuples that another thread is in the middle of making.

As in `tuple(row for row in rows)`: Python raises SystemError in that thread if anything else refers to its tuple by the
time it is full. So such tuples are let go in the same call of C that has listed them: no other thread runs in between.
A tuple that is being made has places without an element, but for the moment at which it is full and gets larger.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, compress, count, islice, repeat
from operator import is_, lt, methodcaller, setitem
from typing import Any

_call = methodcaller("__call__")


def classes_of(list_objects: Callable[[], Iterable[Any]]) -> list[type]:
    """The class of each object listed."""
    return list(map(type, chain.from_iterable(map(_call, (list_objects,)))))


def of_classes(list_objects: Callable[[], Iterable[Any]], idents: set[int]) -> list[Any]:
    """Those of the objects listed whose classes have these ids; `tuple` is none of them."""
    lists: list[Iterable[Any]] = []
    found: list[Any] = []
    # Both iterators come to their ends, where they let the list go: hence `None` after the last object.
    classes = map(id, map(type, chain.from_iterable(lists)))
    chosen = compress(chain(chain.from_iterable(lists), repeat(None)), map(idents.__contains__, classes))
    _do(partial(lists.extend, map(_call, (list_objects,))), partial(found.extend, chosen), lists.clear)
    return found


def finished(list_objects: Callable[[], Iterable[Any]], first: int = 0, last: int | None = None) -> list[Any]:
    """The objects listed from number `first` on and before `last`, with None in the place of an unfinished tuple."""
    objects: list[Any] = []
    tuples: list[int] = []
    elements = islice(chain.from_iterable(map(_call, (list_objects,))), first, last)
    places = compress(count(), map(is_, map(type, objects), repeat(tuple)))
    at_tuples = map(objects.__getitem__, tuples), map(objects.__getitem__, tuples)
    are_short = map(lt, map(len, map(gc.get_referents, at_tuples[0])), map(len, at_tuples[1]))
    let_go = map(partial(setitem, objects), compress(tuples, are_short), repeat(None))
    _do(partial(objects.extend, elements), partial(tuples.extend, places), partial(any, let_go))
    return objects


def _do(*functions: Callable[[], object]) -> None:
    """Call these, which return nothing, one after the other in one call of C."""
    any(map(_call, functions))

"""Objects are found again by their addresses only while they live."""

from __future__ import annotations

import gc
import random
import sys
from collections import deque
from collections.abc import Iterator

import pytest

from gputui.probe.objects.handles import AT_ONCE, Handle, handle_of, objects_of

COUNT = 4 * AT_ONCE
SEED = 5


class Thing:
    """An object with attributes."""


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_each_kind_of_object_is_found_and_gets_no_reference_more() -> None:
    objects = [[1, []], {"key": []}, (1, []), Thing(), {Thing()}, deque([[]]), lambda: objects]
    before = list(map(sys.getrefcount, objects))
    found = objects_of(list(map(handle_of, objects)))
    assert all(value is original for value, original in zip(found, objects, strict=True))
    del found
    assert list(map(sys.getrefcount, objects)) == before


def test_only_those_that_live_are_found_whatever_took_the_places_of_the_others() -> None:
    chance = random.Random(SEED)
    objects: list[list[object]] = [[number] for number in range(COUNT)]
    handles = [handle_of(value) for value in objects]
    alive = dict(chance.sample(list(zip(handles, objects, strict=True)), COUNT // 2))
    objects.clear()
    others = tuple({"number": number} for number in range(COUNT)), tuple(str(number) * 9 for number in range(COUNT))
    found = dict(zip(handles, objects_of(handles), strict=True))
    assert all(found[handle] is value for handle, value in alive.items())
    assert all(found[handle] is None for handle in handles if handle not in alive)
    del others


def test_an_address_that_never_was_an_object_is_none() -> None:
    assert objects_of([Handle(64, id(list)), Handle(1 << 46, id(list)), Handle(id(list) + 8, id(list))]) == [None] * 3
    assert objects_of([]) == []


def test_an_object_of_another_type_at_the_same_place_is_not_taken_for_it() -> None:
    value = [1, []]
    assert objects_of([Handle(id(value), id(dict))]) == [None]

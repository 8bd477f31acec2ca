"""Proves in one stop what `gc.collect()` would free of some objects, as Python's garbage collector does.

Python counts the references to each object. Those that do not come from one of the objects come from outside. What has
none from outside, and is not reached from an object that has some, would be freed.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from functools import partial
from itertools import compress
from types import FrameType
from typing import Any

from gputui.probe.garbage.going import Countdown, Going
from gputui.probe.garbage.references import tensor_classes
from gputui.probe.names.cycles import Closing, classes_of, closing, counted_from_outside
from gputui.probe.objects import plain
from gputui.probe.objects.handles import Handle, objects_of
from gputui.probe.objects.listing import of_classes
from gputui.probe.objects.torch_types import Torch
from gputui.probe.pace.meter import Meter


def proven(
    torch: Torch, cycles: Mapping[Handle, int], nodes: list[Handle], meter: Meter
) -> tuple[list[dict[str, Any]], bool]:
    """What `gc.collect()` would free of the objects in `cycles`, and whether all of it could be read.

    `cycles` has the number of each object's cycle, or `-1 - number` for an object that is in no cycle, but to which
    that cycle leads. `nodes` are the nodes of autograd graphs that are none of these objects.
    """
    objects = [value for value in objects_of(list(cycles)) if value is not None]
    numbers = {handle.address: number for handle, number in cycles.items()}
    closed = closed_part(objects)
    left = set(map(id, closed))
    staying = [value for value in [*objects, *_tensors(torch), *objects_of(nodes)] if value is not None]
    staying = [value for value in {id(value): value for value in staying}.values() if id(value) not in left]
    del objects
    countdown = Countdown(torch, {at: max(numbers[at], -1 - numbers[at]) for at in left}, staying, meter)
    taken: dict[int, list[Going]] = {}
    for storage in countdown.storages(closed):
        taken.setdefault(storage.group, []).append(storage)
    unread = countdown.unread_graphs()
    members: dict[int, list[Any]] = {}
    for value in closed:
        number = numbers[id(value)]
        if number < 0 and type(value) is FrameType:
            number = -1 - number  # the caller's frame tells who made the cycle, which a library's frame does not
        if number in taken or number in unread:
            members.setdefault(number, []).append(value)
    return _described(members, taken, unread), countdown.is_whole


def closed_part(objects: list[Any]) -> list[Any]:
    """The objects to which nothing leads from outside; nothing but the caller's list may refer to them for us."""
    places = {id(value): number for number, value in enumerate(objects)}
    reached = [number for number, count in enumerate(counted_from_outside(objects)) if count > 0]
    are_left = [True] * len(objects)
    while reached:
        number = reached.pop()
        if are_left[number]:
            are_left[number] = False
            reached.extend(places[id(held)] for held in gc.get_referents(objects[number]) if id(held) in places)
    return list(compress(objects, are_left))


def _tensors(torch: Torch) -> list[Any]:
    """All tensors, found as referrers of their classes."""
    classes = tensor_classes(torch)
    return of_classes(partial(gc.get_referrers, *classes), set(map(id, classes)))


def _described(
    cycles: dict[int, list[Any]], taken: dict[int, list[Going]], unread: dict[int, int]
) -> list[dict[str, Any]]:
    """The fields of `model.attached.target.Cycles` for each device and kind; the arguments are by number of a cycle."""
    found: dict[tuple[int, int, Closing], dict[str, Any]] = {}
    for number, cycle in cycles.items():
        storages = taken.get(number, [])
        cls, how = classes_of(cycle)[0], closing(cycle)
        devices = [storage.device for storage in storages] or [unread[number]]
        for device in dict.fromkeys(devices):
            described = {"type": plain.class_name(cls), "count": 0, "storages": [], "is_least": False}
            told = {"closed_by": how.words, "maker": how.maker, "function": how.function}
            group = found.setdefault((device, id(cls), how), {"device": device, **described, **told})
            group["count"] += 1 if cls is FrameType else sum(type(value) is cls for value in cycle)
            group["is_least"] = group["is_least"] or number in unread
            group["storages"] += [[at.address, at.size_bytes] for at in storages if at.device == device]
    return list(found.values())

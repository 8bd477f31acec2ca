"""What `gc.collect()` would free of some objects, proven as Python's garbage collector does it, in one stop.

Every reference to each of them comes from one of them: then nothing outside leads to them. References from outside are
those that Python counts beyond the ones found inside.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from itertools import chain, compress
from typing import Any

from gputui.probe.garbage.going import Countdown, Going, may_stay
from gputui.probe.names.cycles import closed_by, closing, is_of_program
from gputui.probe.objects import plain
from gputui.probe.objects.torch_types import Torch
from gputui.probe.pace.meter import Meter

Group = dict[str, Any]
"""The fields of `gputui.model.attached.target.Cycles`."""


def proven(torch: Torch, candidates: dict[int, int], meter: Meter) -> tuple[list[Group], bool]:
    """What `gc.collect()` would free now, and whether there was time to find out.

    `candidates` are the numbers of objects' cycles, by address; that of an object in none, which one leads to, is
    `-1 - number`.
    """
    objects, staying = _listed(torch, candidates)
    closed = closed_part(objects)
    left = set(map(id, closed))
    staying += [value for value in objects if id(value) not in left]
    del objects
    numbers = {ident: max(candidates[ident], -1 - candidates[ident]) for ident in left}
    countdown = Countdown(torch, numbers, staying, meter)
    taken: dict[int, list[Going]] = {}
    for storage in countdown.storages(closed):
        taken.setdefault(storage.group, []).append(storage)
    cycles: dict[int, list[Any]] = {}
    for value in closed:
        if candidates[id(value)] in taken:
            cycles.setdefault(candidates[id(value)], []).append(value)
    return _described(cycles, taken), countdown.is_whole


def closed_part(objects: list[Any]) -> list[Any]:
    """Those of these objects to which nothing leads from outside; the caller's list is the only other holder."""
    places = {id(value): number for number, value in enumerate(objects)}
    reached = [number for number, count in enumerate(_counted_from_outside(objects)) if count > 0]
    are_left = [True] * len(objects)
    while reached:
        number = reached.pop()
        if are_left[number]:
            are_left[number] = False
            reached.extend(places[id(held)] for held in gc.get_referents(objects[number]) if id(held) in places)
    return list(compress(objects, are_left))


def _counted_from_outside(objects: list[Any]) -> list[int]:
    """How many references to each of these come from elsewhere; the list of the caller's caller is left out."""
    inside: Counter[int] = Counter(map(id, chain.from_iterable(map(gc.get_referents, objects))))
    alone = [object()]
    (held_here,) = map(sys.getrefcount, alone)
    return [count - held_here - inside[id(value)] for count, value in zip(map(sys.getrefcount, objects), objects)]


def _listed(torch: Torch, candidates: dict[int, int]) -> tuple[list[Any], list[Any]]:
    """The candidates, and the tensors and nodes of graphs that are none."""
    objects = gc.get_objects()
    are_candidates = list(map(candidates.__contains__, map(id, objects)))
    classes = list(map(type, objects))
    lead_on = {ident: may_stay(torch, cls) for ident, cls in dict(zip(map(id, classes), classes)).items()}
    others = compress(objects, map(lead_on.__getitem__, map(id, classes)))
    staying = [value for value in others if id(value) not in candidates]
    return list(compress(objects, are_candidates)), staying


def _described(cycles: dict[int, list[Any]], taken: dict[int, list[Going]]) -> list[Group]:
    """Cycles of one kind as one group for each device."""
    found: dict[tuple[int, str], Group] = {}
    for number, storages in taken.items():
        cycle = cycles[number]
        kind = closed_by(cycle) or plain.type_name(cycle[0])
        cls = type(next(filter(is_of_program, cycle), cycle[0]))
        for device in dict.fromkeys(storage.device for storage in storages):
            described = {"type": plain.class_name(cls), "count": 0, "closed_by": closing(cycle), "storages": []}
            group = found.setdefault((device, kind), {"device": device, **described})
            group["count"] += sum(type(value) is cls for value in cycle)
            group["storages"] += [[at.address, at.size_bytes] for at in storages if at.device == device]
    return list(found.values())

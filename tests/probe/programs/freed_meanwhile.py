"""References read in parts, between which the program frees what was read last."""

from __future__ import annotations

import gc

import torch
from looking import print_json

from gputui.probe.garbage.references import Part

gc.disable()
gc.collect()
gc.freeze()

OBJECTS = 30_000
kept = {id(value): value for value in ([number] for number in range(OBJECTS))}
read: list[int] = []
place, is_broken = None, False
while not is_broken:
    part = Part()
    part.read(torch, place, 0, 0)
    is_broken, place = part.is_broken, part.next
    read += part.addresses
    if place is None:
        break
    for address in part.addresses[-3:]:
        kept.pop(address, None)

print_json(
    {
        "is_broken": is_broken,
        "freed": OBJECTS - len(kept),
        "unread": len(set(kept) - set(read)),
        "times": [read.count(address) for address in list(kept)[:: OBJECTS // 100]],
    }
)

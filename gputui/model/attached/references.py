"""What each of a program's Python objects refers to, by address: a part of it, as the probe has read it in one stop."""

from __future__ import annotations

from array import array
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReferencesPart:
    """Of each object its address, that of its type, how many references to it are counted, how many it has to others.

    `referents` are the addresses of those others, one object's after the other's; `tensors` and `nodes` are the numbers
    of objects in this part that are tensors, and nodes of autograd graphs. `next` is where to go on, None after the
    last part. `reason` says why nothing was read. `is_broken`: objects may have been passed over, as Python has moved
    them meanwhile; all has to be read again. `stop_ms` is for how long the program was stopped.
    """

    addresses: array[int]
    types: array[int]
    counts: array[int]
    lengths: array[int]
    referents: array[int]
    tensors: array[int]
    nodes: array[int]
    next: tuple[int, int, int, int] | None
    reason: str
    is_broken: bool
    stop_ms: float

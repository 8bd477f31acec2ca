"""What `gc.collect()` would free, as far as it was looked for: a stop at a time, and what is known from it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from time import perf_counter
from typing import Any

from gputui.probe.guards.probe_thread import let_others_run
from gputui.probe.main_thread.isolation import isolated
from gputui.probe.names.cycles import Cycle
from gputui.probe.names.garbage import Group, References, proven
from gputui.probe.objects.torch_types import Torch
from gputui.probe.pace.budget import LISTING_MS
from gputui.probe.pace.meter import Meter
from gputui.probe.search.keepers import CYCLE

PIECE_S = 0.1
"""So long the probe's thread works on the candidates between two stops, while other threads of the program run."""
TRIES = 3
"""How often all references are read, if Python collects its garbage meanwhile."""
CANDIDATES_AT_MOST = 50_000
"""So many objects can be proven in one stop."""
LIST_TWICE = 2
"""The last stop lists all objects and sorts out the candidates: about twice the time of the list alone."""
_TOO_MANY_OBJECTS = (
    "What gc.collect() would free is not known: to list all Python objects would stop the program for about {:.0f} ms."
)
_TOO_MANY_CANDIDATES = (
    "What gc.collect() would free is not known: {:,} objects may be kept by cycles alone, more than one stop can prove."
)
_COLLECTED = "What gc.collect() would free is not known: Python was collecting garbage meanwhile, so look again."
_CHANGING = (
    "What gc.collect() would free is not known: a backward pass was under way, or a graph was too long for one stop."
)
NOT_YET = "What gc.collect() would free is being looked for: look again, or wait for it."
_OTHERS_RUN = "What gc.collect() would free is not known: this Python runs threads beside the look."


class Collectable:
    """Belongs to one process. `advance` is called in a stop, `think` after it in the probe's thread."""

    def __init__(self) -> None:
        self._references: References | None = None
        self._candidates: set[int] | None = None
        self._thinking: Iterator[set[int]] | None = None
        self._found: set[int] = set()
        self._tries = 0
        self._groups: list[Group] | None = None
        self._reason = ""
        self.is_under_way = False
        """Whether it is being looked for."""

    def begin(self, limit_ms: float) -> None:
        """Look for it in the next stops, of which each may take this long."""
        listing_ms = LIST_TWICE * sys.getallocatedblocks() * LISTING_MS
        self._tries, self._references, self._thinking, self._candidates = 1, References(), None, None
        self._reason = _TOO_MANY_OBJECTS.format(listing_ms) if listing_ms > limit_ms else ""
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            self._reason = _OTHERS_RUN
        self.is_under_way = not self._reason

    def advance(self, torch: Torch, limit_ms: float) -> None:
        """Read some references, or prove what they have led to; no garbage is collected meanwhile."""
        if self._candidates is not None:
            self._prove(torch, limit_ms)
        elif self._references is not None and self._thinking is None:
            is_left = self._references.read_part(_classes(torch), limit_ms / 2)
            self._thinking = None if is_left else self._references.unreachable()

    def think(self) -> None:
        """Work on the candidates for a moment, once all references are read."""
        ends_at = perf_counter() + PIECE_S
        thinking, references = self._thinking, self._references
        if thinking is None or references is None:
            return
        if references.is_broken:
            self._thinking, self._references, self._tries = None, References(), self._tries + 1
            if self._tries > TRIES:
                self._end(_COLLECTED)
            return
        for found in thinking:
            self._found = found
            let_others_run()
            if perf_counter() > ends_at:
                return
        self._thinking = self._references = None
        self._candidates = self._found
        if len(self._candidates) > CANDIDATES_AT_MOST:
            self._end(_TOO_MANY_CANDIDATES.format(len(self._candidates)))

    def fields(self) -> dict[str, Any] | None:
        """The fields of `gputui.model.attached.target.Garbage`; None if it was not looked for."""
        if self._reason or self.is_under_way:
            return {"groups": [], "reason": self._reason or NOT_YET, "is_under_way": self.is_under_way}
        if self._groups is None:
            return None
        return {"groups": [fields for group in self._groups if (fields := _fields(group))["count"]], "reason": ""}

    def cycles(self) -> dict[int, Cycle]:
        """What keeps each storage that would be freed, by its address."""
        return {
            address: Cycle(group.name, CYCLE, frozenset(), ())
            for group in self._groups or ()
            for part in group.parts
            if part.is_there
            for address, _ in part.storages
        }

    def forget_gone(self) -> None:
        """What was found is out of date once all of it was collected."""
        parts = [part for group in self._groups or () for part in group.parts]
        if parts and not any(part.is_there for part in parts):
            self._groups = None

    def _prove(self, torch: Torch, limit_ms: float) -> None:
        meter = Meter(limit_ms / 1000)
        candidates, self._candidates = self._candidates or set(), None
        if not candidates:
            self._groups = []
            self._end("")
            return
        self._groups, is_whole = isolated(torch, partial(proven, torch, candidates, meter))
        self._end("" if is_whole else _CHANGING)

    def _end(self, reason: str) -> None:
        self._reason, self.is_under_way = reason, False
        self._references = self._thinking = self._candidates = None


def _fields(group: Group) -> dict[str, Any]:
    parts = [part for part in group.parts if part.is_there]
    storages = [storage for part in parts for storage in part.storages]
    count = sum(part.objects for part in parts)
    described = {"device": group.device, "type": group.type, "closed_by": group.closed_by}
    return {**described, "count": count, "storages": storages}


def _classes(torch: Torch) -> set[int]:
    """The ids of the classes of tensors, those of the program included."""
    found: dict[int, type] = {}
    pending: list[type] = [torch.Tensor, torch.nn.Parameter]
    while pending:
        cls = pending.pop()
        if id(cls) not in found:
            found[id(cls)] = cls
            pending += type.__subclasses__(cls)
    return set(found)

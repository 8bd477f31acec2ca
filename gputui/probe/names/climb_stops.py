"""One level of a climb as one stop: how long it takes, which values have names, and what is remembered of it."""

from __future__ import annotations

import sys
from collections import deque
from functools import partial

from gputui.probe.guards.originals import thread_time
from gputui.probe.main_thread.isolation import isolated
from gputui.probe.names.memory import Memory
from gputui.probe.objects.attributes import AttributeReader
from gputui.probe.objects.kinds import TypeClassifier, forget_passing_classes
from gputui.probe.objects.threads import threads_now
from gputui.probe.objects.torch_types import Torch
from gputui.probe.pace.budget import LEARNED_FROM, LISTING_MS
from gputui.probe.search.keepers import Keepers
from gputui.probe.search.variables import NamedValue


class ClimbStops:
    """Belongs to one process."""

    def __init__(self) -> None:
        self._took_ms: deque[float] = deque(maxlen=LEARNED_FROM)
        """The processor time of the last levels."""

    def is_due(self, memory: Memory, limit_ms: float) -> bool:
        """Whether some memory has no name, and one level takes at most this long, as far as that is known."""
        return memory.climb.unnamed_bytes > 0 and self.call_ms <= limit_ms

    @property
    def call_ms(self) -> float:
        """How long one level takes: the shortest of the last ones, or else an estimate from the number of objects."""
        return min(self._took_ms, default=sys.getallocatedblocks() * LISTING_MS)

    def climb(self, torch: Torch, memory: Memory) -> None:
        """Go up one level, in a stop; no garbage is collected meanwhile."""
        began = thread_time()
        try:
            isolated(torch, partial(_climb, torch, memory))
        finally:
            forget_passing_classes()
        self._took_ms.append((thread_time() - began) * 1000)


def _climb(torch: Torch, memory: Memory) -> None:
    TypeClassifier(torch)  # looks at the metaclasses, on which `plain.are_plain` relies
    attributes = AttributeReader()
    paths = memory.climb.advance(torch, partial(_known_values, memory, attributes))
    is_new = bool(paths) and memory.remembered.add(paths, attributes)
    if not memory.climb.is_under_way:
        memory.climb.note_end(is_fruitful=is_new)


def _known_values(memory: Memory, attributes: AttributeReader) -> dict[int, NamedValue]:
    """The names of the values of variables and of the modules to which these lead, by id; the first name counts."""
    known: dict[int, NamedValue] = {}
    for where, _, variables, _ in Keepers(attributes).variables(memory.other_threads.known(threads_now())):
        for name, value in variables.items():
            known.setdefault(id(value), NamedValue(None, name, where))
    for module in memory.trees.named:
        if module.is_alone:
            continue
        known.setdefault(id(module.reference()), NamedValue(None, module.name, ""))
    return known

"""One question to a probe: what would `gc.collect()` free? In parts, each answered with the next request."""

from __future__ import annotations

import time
from collections.abc import Iterator

from gputui.explain.memory.unreachable import Cycles, References
from gputui.model.attached.references import ReferencesPart
from gputui.model.attached.target import Garbage
from gputui.sources.probe.client import ProbeClient

TRIES = 3
"""How often all references are read, if Python collects its garbage meanwhile."""
PIECES_S = 0.05
"""So long one call of `work` takes about."""
_COLLECTED = "Python was collecting garbage meanwhile."
_TOO_MANY_OBJECTS = "The program has too many Python objects."
_TOO_MANY_CANDIDATES = "Too many objects may be kept by cycles alone to prove it in one stop."


class GarbageSearch:
    """`pause_s` is how long one stop of the program may take. Call `take` with each part, then `work` until it ends."""

    def __init__(self, client: ProbeClient, pause_s: float) -> None:
        self._client = client
        self._pause_s = pause_s
        self._references = References()
        self._work: Iterator[Cycles | None] | None = None
        self._tries = 1
        self.is_under_way = True
        """False once the probe was asked for a proof, or `take` or `work` has returned a reason."""
        client.ask_references(None, pause_s)

    @property
    def is_working(self) -> bool:
        """Whether all references are read: then `work` is to be called."""
        return self._work is not None

    def take(self, part: ReferencesPart) -> Garbage | None:
        """Go on after one part; returns why it is not known, if it ends here."""
        if part.reason:
            return self._ended(part.reason)
        if part.is_broken:
            self._references, self._tries = References(), self._tries + 1
            if self._tries > TRIES:
                return self._ended(_COLLECTED)
            self._client.ask_references(None, self._pause_s)
            return None
        self._references.add(part)
        if self._references.is_too_much:
            return self._ended(_TOO_MANY_OBJECTS)
        if part.next is None:
            self._work = self._references.cycles()
        else:
            self._client.ask_references(part.next, self._pause_s)
        return None

    def work(self) -> Garbage | None:
        """Find cycles for a moment; returns what is known if no proof is needed."""
        ends_at = time.monotonic() + PIECES_S
        for cycles in self._work or ():
            if cycles is not None:
                self._work, self.is_under_way = None, False
                if not cycles:
                    return Garbage(time.time())
                is_asked = self._client.ask_garbage(cycles, self._pause_s)
                return None if is_asked else self._ended(_TOO_MANY_CANDIDATES)
            if time.monotonic() > ends_at:
                break
        return None

    def _ended(self, reason: str) -> Garbage:
        self._work, self.is_under_way = None, False
        return Garbage(time.time(), reason=reason)

"""Finds what `gc.collect()` would free: reads references from a probe part by part, and then asks for a proof."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise

from gputui.explain.memory.unreachable import Candidates, References
from gputui.explain.moment.probe_state import Message
from gputui.model.attached.target import Garbage, ReferencesPart
from gputui.protocol import frames
from gputui.sources.probe.client import ProbeClient

LARGEST_PROOF_BYTES = frames.MAX_REQUEST_BYTES - 1024
Place = tuple[int, int, int, int]
TRIES = 3
"""How often a search is tried, if Python collects garbage meanwhile or a proof fails."""
PIECES_S = 0.05
"""About how long one call of `follow` searches for cycles."""
AUTOMATIC_MS, ASKED_FOR_MS = 500.0, 10_000.0
"""How long one search may stop the program in all: a search by itself, and one that the user has asked for."""
_TOO_LONG = "It would stop the program for more than {:g} s, in many stops{}."
_ASK = ": a scan (s) goes on to the end"
_COLLECTED = "Python was collecting garbage meanwhile."
_TOO_MANY_OBJECTS = "The program has too many Python objects."
_TOO_MANY_CANDIDATES = "Too many objects may be kept by cycles alone to prove it in one stop."


class GarbageSearch:
    """`pause_s` is how long one stop of the program may take. Call `follow` until it returns `Garbage`."""

    def __init__(self, client: ProbeClient, pause_s: float, *, is_asked_for: bool) -> None:
        self._client = client
        self._is_asked_for = is_asked_for
        self._stopped_ms = 0.0
        self._pause_s = pause_s
        self._references = References()
        self._work: Iterator[Candidates | None] | None = None
        self._candidates: Candidates | None = None
        """The objects that are perhaps garbage, once they are found."""
        self._tries = 1
        self._ask_for_references(None)

    @property
    def is_working(self) -> bool:
        """Whether `follow(None)` has something to do while no message comes."""
        return self._work is not None

    def follow(self, message: Message | None) -> Message | None:
        """Go on after a message of the probe, or None if none has come; returns a message that is not of this search.

        At its end it returns `Garbage`, with what would be freed, or why that is not known.
        """
        if isinstance(message, ReferencesPart):
            return self._take_part(message)
        if isinstance(message, Garbage):
            return message if not message.reason or not self._tries_again() else self._ask_for_proof()
        return self._find() if message is None and self._work else message

    def _take_part(self, part: ReferencesPart) -> Garbage | None:
        if part.reason:
            return self._ended(part.reason)
        self._stopped_ms += part.stop_ms
        most_ms = ASKED_FOR_MS if self._is_asked_for else AUTOMATIC_MS
        if self._stopped_ms > most_ms and part.next is not None:
            return self._ended(_TOO_LONG.format(most_ms / 1000, "" if self._is_asked_for else _ASK))
        if part.is_broken:
            if not self._tries_again():
                return self._ended(_COLLECTED)
            self._references = References()
            self._ask_for_references(None)
            return None
        self._references.add(part)
        if self._references.is_too_much:
            return self._ended(_TOO_MANY_OBJECTS)
        if part.next is None:
            self._work = self._references.candidates()
        else:
            self._ask_for_references(part.next)
        return None

    def _find(self) -> Garbage | None:
        """Search for cycles for a moment; returns the result if no proof is needed."""
        ends_at = time.monotonic() + PIECES_S
        for found in self._work or ():
            if found is not None:
                self._work, self._candidates, self._references = None, found, References()
                return self._ask_for_proof() if found.cycles else Garbage(time.time())
            if time.monotonic() > ends_at:
                break
        return None

    def _ask_for_references(self, place: Place | None) -> None:
        self._client.send({"type": "references", "place": place, "pause_ms": self._pause_s * 1000})

    def _ask_for_proof(self) -> Garbage | None:
        message = proof_request(self._candidates) if self._candidates else {}
        if len(frames.encode(message)) > LARGEST_PROOF_BYTES:
            return self._ended(_TOO_MANY_CANDIDATES)
        self._client.send({**message, "pause_ms": self._pause_s * 1000})
        return None

    def _tries_again(self) -> bool:
        self._tries += 1
        return self._tries <= TRIES

    def _ended(self, reason: str) -> Garbage:
        self._work = None
        return Garbage(time.time(), reason=reason)


def proof_request(asked: Candidates) -> dict[str, object]:
    """The message that asks which of these objects `gc.collect()` would free."""
    addresses, nodes = sorted(asked.cycles), sorted(asked.nodes)
    return {
        "type": "garbage",
        "steps": _steps(addresses),
        "type_steps": _steps(map(asked.types.__getitem__, addresses)),
        "cycles": list(map(asked.cycles.__getitem__, addresses)),
        "nodes": nodes,
        "node_types": list(map(asked.types.__getitem__, nodes)),
    }


def _steps(numbers: Iterable[int]) -> list[int]:
    """Each number as its distance from the one before, which takes fewer digits."""
    return [number - before for before, number in pairwise(chain([0], numbers))]

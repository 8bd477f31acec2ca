"""Which looks may be taken that nobody pressed a key for: none that would hold up the program's threads for long.

What a look costs is told beforehand from the number of live blocks, and from how much dearer than that the last one of
its kind was. What a look costs is its processor time: a machine that is busy with others makes no program dear.
"""

from __future__ import annotations

LIMIT_MS = 5.0
"""The longest that a look may take which nobody asked for."""

# What a look takes: milliseconds at least, and for each live block. A GPT of 24 layers (1,877 storages) takes 8 ms by
# walk, 10,000 blocks are taken in 3 ms for the map, and a scan goes over the 250,000 objects that PyTorch alone makes.
EXPECTED_MS = {"scan": (50.0, 0.005), "walk": (1.0, 0.005), "": (0.3, 0.0003)}
WAYS = tuple(EXPECTED_MS)
"""The dearest first: each is what is left of the one before."""

COLD = 0.1
"""The first look of a kind finds cold caches and code that never ran: warm ones cost down to so much of it."""

ON_REQUEST = "Looks at this program take about {:.0f} ms: they are taken on request only."
TENSORS_ON_REQUEST = "Tensors are looked at on request only: with them a look takes about {:.0f} ms."
RECORDS = "The program records its memory history, in which each look leaves an entry: looks are taken on request only."


def on_request(text: str) -> dict[str, str]:
    """A `Problem` that a look on request solves, as it goes over the wire."""
    return {"text": text, "kind": "look_on_request"}


class Budget:
    """What looks at this program are expected to take."""

    def __init__(self) -> None:
        self._factors = dict.fromkeys(WAYS, 1.0)
        self._cold = set(WAYS)

    def note(self, how: str, blocks: int, took_ms: float) -> None:
        """Learn from a look."""
        factor = took_ms / _expected_ms(how, blocks)
        is_cold = how in self._cold
        self._factors[how] = max(min(factor, 1.0), factor * COLD) if is_cold else factor
        self._cold.discard(how)

    def way(self, how: str, blocks: int) -> tuple[str | None, str]:
        """What may be taken of a look by `how` (None: nothing), and a sentence where that is not all."""
        wanted_ms = self._predicted_ms(how, blocks)
        for way in WAYS[WAYS.index(how) :]:
            if self._predicted_ms(way, blocks) <= LIMIT_MS:
                return way, "" if way == how or way else TENSORS_ON_REQUEST.format(wanted_ms)
        return None, ON_REQUEST.format(wanted_ms)

    def _predicted_ms(self, how: str, blocks: int) -> float:
        return _expected_ms(how, blocks) * self._factors[how]


def _expected_ms(how: str, blocks: int) -> float:
    at_least_ms, block_ms = EXPECTED_MS[how]
    return at_least_ms + blocks * block_ms

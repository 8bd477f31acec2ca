"""Decides before a stop what there is time for.

A `Meter` bounds the inventory; calls that cannot be cut are predicted. PyTorch returns its map in one call, whose cost
is predicted from the number of live blocks and learned from the maps before. A list of all Python objects is one call,
too. Both are counted in processor time, so that a machine busy with other work makes no program look expensive.

A look takes the inventory of tensors by one of these methods: "scan" (every Python object), "walk" (what variables,
modules, optimizers and the autograd graph lead to) or "" (no inventory: the allocator's map alone).
"""

from __future__ import annotations

import sys
from collections import deque
from typing import NamedTuple

from gputui.protocol import pauses

RESERVE, RESERVE_MS = 0.3, 20.0
"""The part of a stop that is kept for what the meter does not count, and how much is kept at most: for statistics,
sorting, and freeing what was read."""
LARGEST_PART = 0.5
"""The largest part of a stop for one call: what takes longer is left out."""
MANY_BLOCKS, MAP_PART = 4096, 0.25
"""A map of more blocks gets a stop of its own in an automatic look if it takes this part of one: the tensors of so many
take most of a stop, too."""

EXPECTED_MAP_MS = (0.3, 0.0003)
"""Milliseconds of a map: at least, and per live block (10,000 blocks: 3 ms)."""
LISTING_MS = 2e-5
"""Milliseconds of a list of all Python objects per block of Python's memory, of which there are about four to an
object: in a program of 370,000 objects 27 ms, as these are in no processor's cache."""
WALK_MS = 5e-5
"""The same for the search among them for users of memory pools."""
LEARNED_FROM = 3
"""The median of so many maps predicts the next: without maps nothing is learned, so one slow map must not end them."""
COLD = 0.1
"""The first map runs code and touches memory for the first time: later ones may cost this fraction of it."""

NO_MAP = (
    "The allocator has {:,} blocks, and PyTorch lists them in one call that would stop the program for about {:.0f} ms,"
    " so there is no {}map."
)
NO_SCAN = (
    "Listing all Python objects would stop the program for about {:.0f} ms, so only variables, modules, optimizers and"
    " the autograd graph were followed."
)
RECORDS = "The program records its memory history, in which each look leaves an entry: looks are taken on request only."


class LookRequest(NamedTuple):
    """`method`: the inventory's ("walk", "scan", "" for none); `wait_s`: how long to wait for the main thread.

    An urgent look is taken at once, any other when memory has changed and the budget for automatic looks allows it.
    `pause_ms` is the longest that one stop of the program may take.
    """

    method: str
    is_urgent: bool
    wait_s: float
    pause_ms: float


class Plan(NamedTuple):
    """What one look takes; `problems` are sentences about what it leaves out.

    `is_map_apart` says whether the map gets a stop of its own, after those of the inventory.
    """

    method: str
    has_map: bool = True
    is_map_apart: bool = False
    may_walk: bool = False
    """See `PoolWatch.look`."""
    problems: tuple[str | dict[str, str], ...] = ()


NOTHING_LEFT_OUT = Plan("walk")


def on_request(text: str) -> dict[str, str]:
    """A `Problem` that a look on request solves, as it goes over the wire."""
    return {"text": text, "kind": "look_on_request"}


class Budget:
    """Predicts how long a map takes, and learns from those that were taken."""

    def __init__(self) -> None:
        self._factors: deque[float] = deque([1.0], maxlen=LEARNED_FROM)
        self._is_crowded = False
        self._is_cold = True

    def learn_map(self, blocks: int, took_ms: float, pause_ms: float, *, by_clock_ms: float) -> None:
        """Correct the prediction by a map that was taken in a stop of at most `pause_ms`.

        `by_clock_ms` includes the time in which other programs had the processor. On a busy machine that would leave no
        time for the tensors: then the next map gets a stop of its own.
        """
        self._is_crowded = by_clock_ms > pause_ms * LARGEST_PART
        factor = took_ms / _expected_ms(blocks)
        if self._is_cold:
            self._factors.clear()
            factor = max(min(factor, 1.0), factor * COLD)
        self._factors.append(factor)
        self._is_cold = False

    def plan(self, method: str, blocks: int, pause_ms: float, *, is_urgent: bool, uncut_ms: float = 0.0) -> Plan:
        """What a look by `method` takes in stops of at most `pause_ms`; the map, one call, may take `uncut_ms`."""
        map_ms = self._map_ms(blocks)
        has_map = map_ms <= max(pause_ms, uncut_ms)
        problems: list[str | dict[str, str]] = []
        if not has_map:
            text = NO_MAP.format(blocks, map_ms, "" if is_urgent else "automatic ")
            problems.append(text if map_ms > pauses.LONGEST_S * 1000 else on_request(text))
        python_blocks = sys.getallocatedblocks() if is_urgent else 0  # counting them takes up to 2 ms
        listing_ms, walk_ms = python_blocks * LISTING_MS, python_blocks * WALK_MS
        if method == "scan" and not (is_urgent and listing_ms <= pause_ms * LARGEST_PART):
            method = "walk"
            problems += [NO_SCAN.format(listing_ms)] * is_urgent
        map_part = LARGEST_PART if is_urgent or blocks <= MANY_BLOCKS else MAP_PART
        return Plan(
            method,
            has_map=has_map,
            is_map_apart=has_map and bool(method) and (self._is_crowded or map_ms > pause_ms * map_part),
            may_walk=is_urgent and walk_ms <= pause_ms * LARGEST_PART,
            problems=tuple(problems),
        )

    def _map_ms(self, blocks: int) -> float:
        return _expected_ms(blocks) * sorted(self._factors)[len(self._factors) // 2]


def _expected_ms(blocks: int) -> float:
    at_least_ms, block_ms = EXPECTED_MAP_MS
    return at_least_ms + blocks * block_ms

"""Decides before a stop what there is time for.

A `Meter` bounds the inventory; the time of calls that cannot be cut is predicted. PyTorch returns its map in one call,
whose time is predicted from the number of live blocks and corrected by the last maps. Listing all Python objects is one
call, too. Both are predicted in processor time, so that looks leave out no more on a busy machine.

A look takes the inventory of tensors by one of these methods: "scan" (every Python object), "walk" (what variables,
modules, optimizers and the autograd graph lead to) or "" (no inventory: the allocator's map alone).
"""

from __future__ import annotations

import sys
from collections import deque
from typing import NamedTuple

from gputui.protocol import pauses

RESERVE, RESERVE_MS = 0.3, 20.0
"""The part of a stop, and the most in ms, that is kept for what the meter does not count: statistics, sorting, and
freeing what was read."""
LARGEST_PART = 0.5
"""The largest part of a stop for one call: a list of all objects that takes longer is left out; a longer map gets a
stop of its own."""
MANY_BLOCKS, MAP_PART = 4096, 0.25
"""In an automatic look, a map of more blocks gets a stop of its own if it takes more than this part of a stop: the
tensors in so many blocks take most of a stop, too."""

EXPECTED_MAP_MS = (0.3, 0.0003)
"""Milliseconds of a map: for any map, and in addition for each live block (10,000 blocks: 3 ms)."""
LISTING_MS = 2e-5
"""Milliseconds of listing all Python objects, per block of Python's memory. There are about four blocks to an object,
so that 370,000 objects take 27 ms, as they are in no processor's cache."""
WALK_MS = 5e-5
"""The same for the search among all objects for users of memory pools."""
LEARNED_FROM = 3
"""The median of so many maps predicts the next: one slow map must not end them, as without maps nothing is learned."""
COLD = 0.1
"""The first map runs code and touches memory for the first time: later ones may take only this fraction of its time."""

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

    An urgent look is taken at once, any other once memory has changed and the pace of automatic looks allows it.
    `pause_ms` is the longest that one stop of the program may take.
    """

    method: str
    is_urgent: bool
    wait_s: float
    pause_ms: float


class Plan(NamedTuple):
    """What one look reads; `problems` are sentences about what it leaves out.

    `is_map_apart` says whether the map gets a stop of its own, after the stops of the inventory.
    """

    method: str
    has_map: bool = True
    is_map_apart: bool = False
    may_walk: bool = False
    """See `PoolWatch.look`."""
    problems: tuple[str | dict[str, str], ...] = ()


NOTHING_LEFT_OUT = Plan("walk")


def on_request(text: str) -> dict[str, str]:
    """A `Problem` that a look on request would solve, as it is sent to viewers."""
    return {"text": text, "kind": "look_on_request"}


class Budget:
    """Predicts how long a map takes, corrected by the last maps."""

    def __init__(self) -> None:
        self._factors: deque[float] = deque([1.0], maxlen=LEARNED_FROM)
        self._is_crowded = False
        self._is_cold = True

    def learn_map(self, blocks: int, took_ms: float, pause_ms: float, *, by_clock_ms: float) -> None:
        """Correct the prediction by a map that was taken in a stop of at most `pause_ms`.

        `by_clock_ms` includes the time in which other programs had the processor. If it is most of a stop, no time is
        left for the tensors, so the next map gets a stop of its own.
        """
        self._is_crowded = by_clock_ms > pause_ms * LARGEST_PART
        factor = took_ms / _expected_ms(blocks)
        if self._is_cold:
            self._factors.clear()
            factor = max(min(factor, 1.0), factor * COLD)
        self._factors.append(factor)
        self._is_cold = False

    def plan(self, method: str, blocks: int, pause_ms: float, *, is_urgent: bool, uncut_ms: float = 0.0) -> Plan:
        """What a look by `method` reads in stops of at most `pause_ms`; the map, one call, may take `uncut_ms`."""
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

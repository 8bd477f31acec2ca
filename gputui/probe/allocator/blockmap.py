"""Makes the block map from PyTorch's snapshot, by columns and in C loops: a map may have 100,000 blocks.

A small map is read into columns in the stop itself, so that PyTorch's dictionaries are gone before Python's garbage
collector is switched on again: their number would start a collection at once. A large map is read in the probe's
thread, 512 blocks at a time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, compress, groupby, repeat
from operator import itemgetter
from typing import Any

from gputui.probe.allocator.pool_use import Doubts, Pool, PoolUse
from gputui.probe.guards.probe_thread import let_others_run
from gputui.protocol.trace_events import NOT_PYTHON

SEGMENT_COLUMNS = ("device", "address", "size_bytes", "stream", "is_small", "is_expandable", "pool_id", "blocks")
"""The fields of `gputui.model.attached.allocator.Segment`; `blocks` is the number of blocks here."""
COLUMNS = ("address", "size_bytes", "requested_bytes", "state")
"""The fields of `gputui.model.attached.allocator.Block` that every block has."""
SITE = "site"
"""The field of blocks that were allocated while a history was recorded: where in the program."""
LIVE = "active_allocated"
DEFAULT_POOL = (0, 0)
COMPACTED_IN_STOP = 8192
"""A map with more blocks is read into columns in the probe's thread: in the stop it would take more than 5 ms."""

_BLOCKS_IN_TURN = 512
"""How many blocks are read into columns between two pauses in which other threads run."""
_segment_row = itemgetter("device", "address", "total_size", "stream", "segment_type")
_block_columns = [itemgetter(name) for name in ("address", "size", "requested_size", "state")]
_blocks = itemgetter("blocks")
_FRAMES = "frames"


class Columns:
    """Segments and their blocks as columns of equal length, in the order of `SEGMENT_COLUMNS` and `COLUMNS`."""

    def __init__(self) -> None:
        self.segments: list[list[Any]] = [[] for _ in SEGMENT_COLUMNS]
        self.blocks: list[list[Any]] = [[] for _ in COLUMNS]
        self.sites: list[dict[str, Any] | None] = []
        """Where each block was allocated; empty if no history was recorded."""

    def add_segments(self, entries: list[dict[str, Any]]) -> None:
        """Add these segments of PyTorch's snapshot; their blocks are added separately."""
        devices, addresses, sizes, streams, types = zip(*map(_segment_row, entries))
        are_expandable = map(dict.get, entries, repeat("is_expandable"), repeat(False))
        counts = map(len, map(_blocks, entries))
        are_small = map("small".__eq__, types)
        pools = list(pools_of(entries))
        pools = list(map({pool: pool for pool in set(pools)}.__getitem__, pools))  # else each outlives the stop
        read: tuple[Iterable[Any], ...] = (devices, addresses, sizes, streams)
        derived: tuple[Iterable[Any], ...] = (are_small, are_expandable, pools, counts)
        for column, part in zip(self.segments, read + derived):
            column.extend(part)

    def add_blocks(self, blocks: list[dict[str, Any]]) -> None:
        """Add the blocks of the segments that were added last, or some of them."""
        for column, get in zip(self.blocks, _block_columns):
            column.extend(map(get, blocks))

    def add_sites(self, blocks: list[dict[str, Any]]) -> None:
        """Add where the blocks of the last `add_blocks` were allocated."""
        self.sites += map(_site, map(dict.get, blocks, repeat(_FRAMES)))


@dataclass
class RawMap:
    """What must be read in one stop; `describe_map` makes the map of it later, in the probe's thread.

    `segments` and `traces` (one list of events for each device) are as in PyTorch's snapshot; the functions that
    describe them empty these lists. A small map has `columns` in place of segments. `holders`: who keeps each pool.
    """

    settings: dict[str, Any]
    use: PoolUse
    segments: list[dict[str, Any]]
    routed_devices: list[int]
    holders: dict[tuple[int, Pool], str]
    doubts: Doubts
    traces: list[list[dict[str, Any]]] = field(default_factory=list)
    columns: Columns | None = None


def pools_of(segments: list[dict[str, Any]]) -> Iterator[tuple[int, int]]:
    """The pool id of each of these segments of PyTorch's snapshot."""
    return map(tuple, map(dict.get, segments, repeat("segment_pool_id"), repeat(DEFAULT_POOL)))


def private_pools(segments: list[dict[str, Any]]) -> dict[tuple[int, Pool], int]:
    """The bytes of each (device, private pool) that has segments in PyTorch's snapshot."""
    if {DEFAULT_POOL}.issuperset(pools_of(segments)):
        return {}
    sizes: dict[tuple[int, Pool], int] = {}
    for entry, pool in zip(segments, pools_of(segments)):
        if pool != DEFAULT_POOL:
            key = entry["device"], pool
            sizes[key] = sizes.get(key, 0) + entry["total_size"]
    return sizes


def compact_in_stop(raw_map: RawMap) -> None:
    """Read a map into columns, unless it has too many blocks or some have stacks: those the probe's thread reads."""
    entries = raw_map.segments
    if sum(map(len, map(_blocks, entries))) > COMPACTED_IN_STOP:
        return
    blocks = list(chain.from_iterable(map(_blocks, entries)))
    if not entries or any(map(dict.get, blocks, repeat(_FRAMES))):
        return
    raw_map.columns = columns = Columns()
    columns.add_segments(entries)
    columns.add_blocks(blocks)
    entries.clear()


def describe_map(raw_map: RawMap) -> dict[str, Any]:
    """The fields of `gputui.model.attached.allocator.AllocatorMap`, with a table of segments; empties `raw_map`."""
    columns = raw_map.columns or _compact_in_turns(raw_map.segments)
    raw_map.columns = None
    has_sites = any(columns.sites)
    values = [*columns.blocks, columns.sites] if has_sites else columns.blocks
    blocks = {"columns": [*COLUMNS, SITE] if has_sites else [*COLUMNS], "values": values}
    return {
        "segments": {"columns": [*SEGMENT_COLUMNS], "values": columns.segments, "blocks": blocks},
        "private_pools": _private_pools(raw_map),
        "routed_devices": raw_map.routed_devices,
        "unsure_devices": sorted(raw_map.doubts.devices),
        "settings": raw_map.settings,
        "problems": raw_map.use.problems,
    }


def live_blocks(described_map: dict[str, Any], at_once: int) -> Iterator[tuple[int, list[Any], list[Any], list[Any]]]:
    """The device, addresses, sizes and requested bytes of live blocks, in parts of at most `at_once` blocks.

    Between parts, the program's threads run.
    """
    table = described_map["segments"]
    devices, *_, counts = table["values"]
    columns = table["blocks"]["values"][: len(COLUMNS)]
    first = in_turn = 0
    for device, group in groupby(zip(devices, counts), itemgetter(0)):
        last = first + sum(map(itemgetter(1), group))
        for start in range(first, last, at_once):
            end = min(start + at_once, last)
            if in_turn + end - start > at_once:
                let_others_run()
                in_turn = 0
            in_turn += end - start
            *numbers, states = (column[start:end] for column in columns)
            is_live = list(map(LIVE.__eq__, states))
            addresses, size_bytes, requested_bytes = (list(compress(column, is_live)) for column in numbers)
            yield device, addresses, size_bytes, requested_bytes
        first = last


def _compact_in_turns(entries: list[dict[str, Any]]) -> Columns:
    """Read a map into columns, `_BLOCKS_IN_TURN` blocks at a time; empties the list of segments."""
    columns = Columns()
    entries.reverse()  # popping from the end moves no other entry
    while entries:
        part = list(_next_in_turn(entries))
        columns.add_segments(part)
        blocks = list(chain.from_iterable(map(_blocks, part)))
        part.clear()
        blocks.reverse()
        while blocks:
            some = blocks[: -_BLOCKS_IN_TURN - 1 : -1]
            del blocks[-_BLOCKS_IN_TURN:]
            columns.add_blocks(some)
            columns.add_sites(some)
            del some
            let_others_run()
    return columns


def _next_in_turn(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Segments taken from the end of the list, until they have `_BLOCKS_IN_TURN` blocks."""
    blocks = 0
    while entries and blocks < _BLOCKS_IN_TURN:
        blocks += len(entries[-1]["blocks"])
        yield entries.pop()


@lru_cache(maxsize=None)
def _torch_folder() -> str:
    return os.path.dirname(sys.modules["torch"].__file__ or "") + os.sep


@lru_cache(maxsize=4096)
def _is_python(file: str) -> bool:
    return NOT_PYTHON.fullmatch(file) is None


def _site(frames: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    """The innermost Python frame outside PyTorch, or else the innermost Python frame; None without one.

    A history with C++ stacks, PyTorch's default, has C++ frames among them, and begins with PyTorch's own.
    """
    of_python = [frame for frame in frames or () if _is_python(frame["filename"])]
    if not of_python:
        return None
    outside = (frame for frame in of_python if not frame["filename"].startswith(_torch_folder()))
    site = next(outside, of_python[0])
    return {"file": site["filename"], "line": site["line"], "function": site["name"]}


def _private_pools(raw_map: RawMap) -> list[dict[str, Any]]:
    unsure = raw_map.doubts.pools
    return [
        {
            "device": key[0],
            "pool_id": list(key[1]),
            "is_freeable": not holder,
            "holder": holder,
            "is_sure": key not in unsure,
        }
        for key, holder in raw_map.holders.items()
    ]

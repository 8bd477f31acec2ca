"""Makes the block map from PyTorch's snapshot, by columns and in C loops: a map may have 100,000 blocks.

Of small maps the blocks are compacted in the stop itself: PyTorch's dictionaries are gone before Python's garbage
collector is switched on again, which would otherwise begin with a collection. For large ones, this is done in the
probe's thread, a few segments at a time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, repeat
from operator import itemgetter
from time import sleep
from typing import Any

from gputui.probe.allocator import DEFAULT_POOL, RawMap
from gputui.probe.encoding import PAUSE_S
from gputui.probe.pools import PoolUse
from gputui.protocol.trace_events import NOT_PYTHON

COLUMNS = ("address", "size_bytes", "requested_bytes", "state")
"""The fields of `gputui.model.allocator.Block` that every block has."""
SITE = "site"
"""The field of those that were allocated while a history was recorded."""
LIVE = "active_allocated"
COMPACTED_IN_STOP = 8192
"""Of a map with more blocks, they are compacted in the probe's thread: 5 ms of work."""

_KEYS = ("address", "size", "requested_size", "state")
"""The same in PyTorch's snapshot."""
_BLOCKS_IN_TURN = 512
"""How many blocks are compacted between two pauses in which other threads run."""
_SEGMENTS_IN_TURN = 128
"""How many segments are described between two pauses, if their blocks are compacted already."""
_READERS = tuple(map(itemgetter, _KEYS))
_blocks = itemgetter("blocks")
_FRAMES = "frames"


def compact_in_stop(raw_map: RawMap) -> None:
    """Compact the blocks of a map unless there are too many, or any has a site: then the probe's thread does it."""
    parts = list(map(_blocks, raw_map.segments))
    sizes = list(map(len, parts))
    if sum(sizes) > COMPACTED_IN_STOP:
        return
    blocks = list(chain.from_iterable(parts))
    if any(map(dict.get, blocks, repeat(_FRAMES))):
        return
    columns = [list(map(read, blocks)) for read in _READERS]
    end = 0
    for entry, size in zip(raw_map.segments, sizes):
        start, end = end, end + size
        entry["blocks"] = tuple([column[start:end] for column in columns])


def describe_map(raw_map: RawMap) -> dict[str, Any]:
    """The fields of `gputui.model.allocator.AllocatorMap`, with a table of blocks; empties the list of raw segments."""
    segments = [_segment(entry) for entry in _in_turns(raw_map.segments)]
    return {
        "segments": segments,
        "private_pools": _private_pools(segments, raw_map.use),
        "routed_devices": raw_map.routed_devices,
        "settings": raw_map.settings,
        "problems": raw_map.use.problems,
    }


def _segment(entry: dict[str, Any]) -> dict[str, Any]:
    blocks = entry["blocks"]
    values = blocks if type(blocks) is tuple else _compact_in_turns(blocks)
    return {
        "device": entry["device"],
        "address": entry["address"],
        "size_bytes": entry["total_size"],
        "stream": entry["stream"],
        "is_small": entry["segment_type"] == "small",
        "is_expandable": entry.get("is_expandable", False),
        "pool_id": list(entry.get("segment_pool_id", DEFAULT_POOL)),
        "blocks": {"columns": [*COLUMNS, SITE][: len(values)], "values": [*values]},
    }


def _in_turns(segments: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    segments.reverse()  # popping from the end moves no other entry
    number = 0
    while segments:
        number += 1
        if number % _SEGMENTS_IN_TURN == 0:
            sleep(PAUSE_S)
        yield segments.pop()


def _compact_in_turns(blocks: list[dict[str, Any]]) -> list[list[Any]]:
    """The columns of one segment's blocks, which are freed, a few at a time."""
    columns: list[list[Any]] = [[] for _ in _READERS]
    sites: list[dict[str, Any] | None] = []
    blocks.reverse()
    while blocks:
        part = blocks[: -_BLOCKS_IN_TURN - 1 : -1]
        del blocks[-_BLOCKS_IN_TURN:]
        for column, read in zip(columns, _READERS):
            column.extend(map(read, part))
        sites += map(_site, map(dict.get, part, repeat(_FRAMES)))
        sleep(PAUSE_S)
    return [*columns, sites] if any(sites) else columns


@lru_cache(maxsize=None)
def _torch_folder() -> str:
    return os.path.dirname(sys.modules["torch"].__file__ or "") + os.sep


@lru_cache(maxsize=4096)
def _is_python(file: str) -> bool:
    return NOT_PYTHON.fullmatch(file) is None


def _site(frames: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    """The innermost Python frame outside PyTorch, or the innermost of all; None without frames.

    A history with C++ stacks, PyTorch's default, has the frames of C++ among them, and begins with PyTorch's own.
    """
    of_python = [frame for frame in frames or () if _is_python(frame["filename"])]
    if not of_python:
        return None
    outside = (frame for frame in of_python if not frame["filename"].startswith(_torch_folder()))
    site = next(outside, of_python[0])
    return {"file": site["filename"], "line": site["line"], "function": site["name"]}


def _private_pools(segments: list[dict[str, Any]], use: PoolUse) -> list[dict[str, Any]]:
    private = sorted({(s["device"], tuple(s["pool_id"])) for s in segments if s["pool_id"] != list(DEFAULT_POOL)})
    holders = use.holders_of(private)
    return [
        {"device": device, "pool_id": list(pool), "is_freeable": not holder, "holder": holder}
        for (device, pool), holder in holders.items()
    ]

"""Makes the block map from what was read at its moment: in the probe's thread, a few blocks at a time.

This is half of the work for a map, and the program's main thread does not wait for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from time import sleep
from typing import Any

from gputui.probe.allocator import DEFAULT_POOL, RawMap
from gputui.probe.encoding import PAUSE_S
from gputui.probe.pools import PoolUse

_ENTRIES = 128
"""How many segments, or blocks of one segment, are described between two pauses in which other threads run."""


def describe_map(raw_map: RawMap) -> dict[str, Any]:
    """The fields of `gputui.model.allocator.AllocatorMap`; empties the list of raw segments."""
    segments = [_segment(entry) for entry in _in_turns(raw_map.segments)]
    return {
        "segments": segments,
        "private_pools": _private_pools(segments, raw_map.use),
        "routed_devices": raw_map.routed_devices,
        "settings": raw_map.settings,
        "problems": raw_map.use.problems,
    }


def _segment(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        "device": entry["device"],
        "address": entry["address"],
        "size_bytes": entry["total_size"],
        "stream": entry["stream"],
        "is_small": entry["segment_type"] == "small",
        "is_expandable": entry.get("is_expandable", False),
        "pool_id": list(entry.get("segment_pool_id", DEFAULT_POOL)),
        "blocks": [_block(block) for block in _in_turns(entry["blocks"])],
    }


def _in_turns(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    entries.reverse()  # popping from the end moves no other entry
    number = 0
    while entries:
        number += 1
        if number % _ENTRIES == 0:
            sleep(PAUSE_S)
        yield entries.pop()


def _block(block: dict[str, Any]) -> dict[str, Any]:
    fields = {
        "address": block["address"],
        "size_bytes": block["size"],
        "requested_bytes": block["requested_size"],
        "state": block["state"],
    }
    frames = block.get("frames")
    if frames:
        fields["site"] = _site(frames)
    return fields


@cache
def _torch_folder() -> str:
    return os.path.dirname(sys.modules["torch"].__file__ or "") + os.sep


def _site(frames: list[dict[str, Any]]) -> dict[str, Any]:
    """The innermost frame outside PyTorch, or the innermost of all."""
    outside = (frame for frame in frames if not frame["filename"].startswith(_torch_folder()))
    site = next(outside, frames[0])
    return {"file": site["filename"], "line": site["line"], "function": site["name"]}


def _private_pools(segments: list[dict[str, Any]], use: PoolUse) -> list[dict[str, Any]]:
    private = sorted({(s["device"], tuple(s["pool_id"])) for s in segments if s["pool_id"] != list(DEFAULT_POOL)})
    holders = use.holders_of(private)
    return [
        {"device": device, "pool_id": list(pool), "is_freeable": not holder, "holder": holder}
        for (device, pool), holder in holders.items()
    ]

"""The block map of a moment, made from what was taken at that moment: in the probe's thread, a few blocks at a time.

Half of a map's time goes into this, and the program's main thread does not wait for it.
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
"""So many segments, or blocks of one, are described between two pauses in which other threads get their turn."""


def describe_map(taken: RawMap) -> dict[str, Any]:
    """The fields of `gputui.model.allocator.AllocatorMap`; consumes the segments that were taken."""
    segments = [_segment(entry) for entry in _in_turns(taken.segments)]
    return {
        "segments": segments,
        "private_pools": _private_pools(segments, taken.use),
        "routed_devices": taken.routed_devices,
        "settings": taken.settings,
        "problems": taken.use.problems,
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
    entries.reverse()  # a list gives up its end without moving the rest
    number = 0
    while entries:
        number += 1
        if number % _ENTRIES == 0:
            sleep(PAUSE_S)
        yield entries.pop()


def _block(block: dict[str, Any]) -> dict[str, Any]:
    told = {
        "address": block["address"],
        "size_bytes": block["size"],
        "requested_bytes": block["requested_size"],
        "state": block["state"],
    }
    frames = block.get("frames")
    if frames:
        told["site"] = _site(frames)
    return told


@cache
def _torch_folder() -> str:
    return os.path.dirname(sys.modules["torch"].__file__ or "") + os.sep


def _site(frames: list[dict[str, Any]]) -> dict[str, Any]:
    """The innermost frame outside PyTorch, or the innermost of all."""
    frame = next((each for each in frames if not each["filename"].startswith(_torch_folder())), frames[0])
    return {"file": frame["filename"], "line": frame["line"], "function": frame["name"]}


def _private_pools(segments: list[dict[str, Any]], use: PoolUse) -> list[dict[str, Any]]:
    seen = sorted({(s["device"], tuple(s["pool_id"])) for s in segments if s["pool_id"] != list(DEFAULT_POOL)})
    holders = use.holders_of(seen)
    return [
        {"device": device, "pool_id": list(pool), "is_freeable": not holder, "holder": holder}
        for (device, pool), holder in holders.items()
    ]

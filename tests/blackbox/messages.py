"""The messages of a small black box, as a probe writes them."""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from gputui.model.attached.target import Look
from gputui.probe.black_box import files
from gputui.sources.files.recording.records import plain
from gputui.units import MIB
from tests.explain.moments import GREETING, Tensor, moment, row

FAILURE = {
    "type": "failure",
    "time": 1795159320.0,
    "device": 0,
    "requested_bytes": 256 * MIB,
    "device_free_bytes": 200 * MIB,
    "device_total_bytes": 4096 * MIB,
    "thread": "MainThread",
    "stack": [{"file": "/home/ana/train.py", "line": 12, "function": "step"}],
    "hostname": "node7",
}


def look() -> Look:
    """A look at three gigabytes of tensors."""
    held = moment(row(Tensor(2048, "model.weight"), Tensor(1024, "h (train.py:12 in step)"), free=6)).look
    assert held is not None
    return held


def messages(**changes: Any) -> list[dict[str, Any]]:
    """All that the probe writes; `changes` are fields of the failure."""
    return [
        {"type": "greeting", **plain(replace(GREETING, rank=3, world_size=8))},
        {"type": "statistics", "time": time.time(), "devices": plain(look().statistics), "pinned_bytes": 7},
        deepcopy(FAILURE) | changes,  # encoding a message empties its lists
        {"type": "look", **by_columns(plain(look()))},
    ]


def by_columns(message: dict[str, Any]) -> dict[str, Any]:
    """The look with its segments and their blocks as tables by columns, as the probe describes them."""
    segments = message["map"]["segments"]
    blocks = [block for segment in segments for block in segment["blocks"]]
    counted = [{**segment, "blocks": len(segment["blocks"])} for segment in segments]
    message["map"]["segments"] = {**_table(counted), "blocks": _table(blocks)}
    return message


def _table(items: list[dict[str, Any]]) -> dict[str, Any]:
    names = list(items[0])
    return {"columns": names, "values": [[item[name] for item in items] for name in names]}


def write(folder: Path, number: int = 1, program: str = "train", **changes: Any) -> Path:
    """Write a black box as the probe does."""
    return Path(files.write(str(folder), program, number, messages(**changes)))

"""The allocator's trace of device 0 and the map at its end, as JSON."""

from __future__ import annotations

from typing import Any

import torch

ACTIONS = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap",
           "snapshot", "oom")  # fmt: skip


def requests_and_frees() -> int:
    """How many blocks were handed out and freed since the start."""
    counts = torch._C._cuda_memoryStats(0)["allocation"]["all"]
    return int(counts["allocated"] + counts["freed"])


def columns() -> dict[str, Any]:
    """The trace as lists of equal length, and the segments as PyTorch gives them."""
    snapshot = torch.cuda.memory._snapshot()
    entries = snapshot["device_traces"][0]
    segments = [segment for segment in snapshot["segments"] if segment["device"] == 0]
    for segment in segments:
        del segment["frames"]
        for block in segment["blocks"]:
            block.pop("frames", None)
    return {
        "actions": [ACTIONS.index(entry["action"]) for entry in entries],
        "addresses": [entry["addr"] if entry["action"] != "oom" else entry["device_free"] for entry in entries],
        "sizes_bytes": [entry["size"] for entry in entries],
        "streams": [entry["stream"] for entry in entries],
        "segments": segments,
    }

"""The events of PyTorch's allocator, as the probe sends them: by their place in a list of names."""

from __future__ import annotations

ACTIONS = (
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "snapshot",
    "oom",
)
"""PyTorch's names of the events (`TraceEntry::Action`), in the order of the numbers in `gputui.model.trace`."""

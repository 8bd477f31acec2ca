"""The names of the events of PyTorch's allocator, and which frames are those of C and C++."""

from __future__ import annotations

import re

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
"""PyTorch's names of events (`TraceEntry::Action`), each at its number in `gputui.model.attached.trace`."""

NOT_PYTHON = re.compile(
    r"(\?\?|(.*/)?python[\d.]*|.*\.(c|cc|cpp|cxx|cu|cuh|h|hpp|hxx|inc|o|a|S|so[.\d]*))(:\d+)?|", re.ASCII
)
"""File names of C and C++ frames, which `stacks="all"` adds; "??" and "" stand for an unknown file.

Newer versions of PyTorch name the library, or the interpreter's own program; runtimes have frames of object files.
"""

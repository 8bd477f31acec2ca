"""The libraries that decide whether some advice about memory holds, by the names of their modules."""

from __future__ import annotations

LIBRARIES = ("vllm.device_allocator.cumem", "torch_memory_saver", "nixl", "mooncake", "ucxx", "ucp", "uccl")
"""A probe says which its program has imported; `gputui.explain.advice.allocator.expandable` says what follows."""

"""PyTorch's caching allocator, read without initialising CUDA or waiting for a device.

In comes the program's `torch`. Out come counters, settings, the map of segments and blocks, and recorded events, with
the names of `gputui.model.attached.allocator`.

- `allocator`: the calls that read it, and what each version of PyTorch makes of them. Begin here.
- `blockmap`: PyTorch's snapshot as columns. `pools`: who uses private pools, which the snapshot leaves out.
  `pool_use`: what was found out, and where a capture may have failed, which no call tells.
- `known_sizes`: blocks that are known by their size alone, such as workspaces. A new one of these goes there.
- `memory_history`, `trace_columns`: recorded events: switching them on and off, and making columns of them.
- `emptied`: the program's own calls of `empty_cache()` while events are recorded.
"""

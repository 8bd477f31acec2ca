"""PyTorch's caching allocator, read without initialising CUDA or waiting for a device.

In: the program's `torch`. Out: counters, settings, the map of segments and blocks, and recorded events, with the names
of `gputui.model.attached.allocator`.

- `allocator`: the calls that read it, and how they differ between versions of PyTorch. Begin here.
- `blockmap`: PyTorch's snapshot as columns.
- `pools`: finds who uses private pools, which the snapshot leaves out. `pool_use`: the result, and failed captures.
- `known_sizes`: blocks that are recognised by their size alone, such as workspaces. A new kind goes there.
- `memory_history`: switches the recording of events on and off. `trace_columns`: makes columns of the events.
- `emptied`: notes the program's own calls of `empty_cache()` while events are recorded.
"""

"""Why a request for GPU memory failed, who held the memory, and what would have been enough.

`analysis` puts it together. `phase` tells in which part of a step, `remedies` what would have made room, also for
requests `outside` of PyTorch's allocator and in `servers`; `sections` and `sentences` are what screens show.
"""

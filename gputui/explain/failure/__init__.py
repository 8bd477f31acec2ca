"""Why a request for GPU memory failed, who held the memory, and what would have been enough.

`analysis` begins here: `phase`: in which part of a step; `remedies`: a table of what would have made room; `outside`:
requests of others than PyTorch's allocator. `sections` and `sentences` are what screens and reports show.
"""

"""A model of PyTorch's caching allocator, which decides as `CUDACachingAllocator.cpp` does.

`device` allocates, splits and frees; `blocks` has blocks, pools and the driver's addresses, `expandable` the expandable
segments, `settings` reads `PYTORCH_ALLOC_CONF`.
"""

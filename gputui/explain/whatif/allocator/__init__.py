"""A model of PyTorch's caching allocator, which decides as `CUDACachingAllocator.cpp` does.

`device` allocates, splits and frees; `blocks` and `expandable` are its memory and the driver's addresses, `settings`
what `PYTORCH_ALLOC_CONF` says.
"""

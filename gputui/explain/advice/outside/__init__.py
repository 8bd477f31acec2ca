"""Findings about memory outside PyTorch's allocator: contexts, other processes, NCCL, pinned host memory."""

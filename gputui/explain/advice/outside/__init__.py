"""Findings about memory outside PyTorch's allocator: CUDA contexts, other processes, NCCL, pinned host memory."""

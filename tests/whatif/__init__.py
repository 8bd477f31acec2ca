"""The model of the allocator, against PyTorch's own."""

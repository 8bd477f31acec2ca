"""PyTorch's own snapshots of its allocator: what `torch.cuda.memory._dump_snapshot` and `gputui snapshot` write."""

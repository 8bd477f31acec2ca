"""The files that gputui opens: recordings, black boxes, and PyTorch's snapshots."""

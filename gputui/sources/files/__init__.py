"""What gputui opens: recordings, black boxes, and snapshots of PyTorch's."""

"""What the probe and its viewers agree on: how frames look and where sockets lie. See `gputui/probe/README.md`."""

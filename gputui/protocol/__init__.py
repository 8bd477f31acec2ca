"""What the probe and its viewers share: frames, fields of messages, paths of sockets. See `gputui/probe/README.md`."""

"""What the probe and its viewers share: the format of frames and the paths of sockets. See `gputui/probe/README.md`."""

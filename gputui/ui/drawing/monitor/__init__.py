"""The monitor's screens as lines: the overview, the lists in it, and the pages of a device and of a process."""

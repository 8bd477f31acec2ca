"""The attach screens: where the memory of an attached process is, and why."""

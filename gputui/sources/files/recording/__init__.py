"""Recordings: what was read of attached processes, kept in a file and replayed."""

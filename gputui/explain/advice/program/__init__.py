"""Findings about what the program does: training loops, batches, the cache of keys and values."""

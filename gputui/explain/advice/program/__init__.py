"""Findings about what the program does: training loops, batches, KV caches, inference servers."""

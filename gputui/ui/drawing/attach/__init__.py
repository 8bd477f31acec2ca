"""Drawing of attached processes: pure functions from moments and a width to lines."""

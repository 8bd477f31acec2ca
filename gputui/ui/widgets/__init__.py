"""Widgets: each paints one slice of a snapshot, line by line, and refreshes the lines that differ."""

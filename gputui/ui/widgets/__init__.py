"""Widgets: each paints one slice of a snapshot, and refreshes only the lines that differ."""

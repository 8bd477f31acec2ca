"""The machine without a process to look into: on a screen, printed, watched, kept for days."""

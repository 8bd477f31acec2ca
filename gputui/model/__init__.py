"""Frozen dataclasses, in bytes and seconds: what a source returns, what a snapshot holds, what a screen shows."""

"""Text that others chose, as it may reach a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Text that cannot move the cursor: what is not printable is escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)

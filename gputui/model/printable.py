"""Makes text that others chose safe for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with everything escaped that is not printable, such as what moves the cursor."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)

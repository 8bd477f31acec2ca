"""Sentences about what was typed."""

from __future__ import annotations

from collections.abc import Collection


def did_you_mean(typed: str, known: Collection[str]) -> str:
    """The remedy for a name that is not known: the nearest one that is, or nothing."""
    from difflib import get_close_matches

    near = get_close_matches(typed, known, n=1)
    return f"Did you mean {near[0]}?" if near else ""

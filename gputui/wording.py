"""Suggestions for misspelt words."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def did_you_mean(typed: str, known: Collection[str], shown: Mapping[str, str] | None = None) -> str:
    """The remedy for a name that is not known: the nearest one that is, as `shown` shows it, or nothing."""
    from difflib import get_close_matches

    near = get_close_matches(typed, known, n=1)
    return f"Did you mean {(shown or {}).get(near[0], near[0])}?" if near else ""

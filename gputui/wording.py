"""Suggestions for a mistyped name."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def did_you_mean(typed: str, known: Collection[str], shown: Mapping[str, str] | None = None) -> str:
    """The remedy for an unknown name: the most similar of `known`, written as in `shown`; "" where none is similar."""
    from difflib import get_close_matches

    near = get_close_matches(typed, known, n=1)
    return f"Did you mean {(shown or {}).get(near[0], near[0])}?" if near else ""

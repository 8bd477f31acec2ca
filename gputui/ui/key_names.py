"""Names of keys, as the settings may use them."""

from __future__ import annotations

from textual.keys import Keys, key_to_character

MODIFIERS = frozenset({"ctrl", "shift", "alt", "meta", "super", "hyper"})
NAMES = frozenset(key.value for key in Keys)


def is_key(name: str) -> bool:
    """Whether a terminal can send a key of this name: "x", "question_mark", "ctrl+g", "f2"."""
    *modifiers, key = name.split("+") if len(name) > 1 else [name]
    is_known = len(key) == 1 or key in NAMES or key_to_character(key) is not None
    return is_known and MODIFIERS.issuperset(modifiers)

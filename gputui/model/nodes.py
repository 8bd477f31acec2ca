"""Tells which words may be given to ssh as the name of a machine: none that it could take for an option or command."""

from __future__ import annotations

import re

_USER, _NAME, _IPV6 = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", r"[A-Za-z0-9_][A-Za-z0-9_.-]*", r"\[[0-9A-Fa-f:.]+\]"
_NODE = re.compile(rf"(?:{_USER}@)?(?:{_NAME}|{_IPV6})")
_LONGEST = 255


def can_be_node(word: str) -> bool:
    """Whether the word has the form NODE or USER@NODE."""
    return len(word) <= _LONGEST and _NODE.fullmatch(word) is not None

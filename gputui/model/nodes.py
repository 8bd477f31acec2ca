"""Which words can be the name of a machine for ssh: none that ssh could take for an option or a command."""

from __future__ import annotations

import re

_USER, _NAME, _IPV6 = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", r"[A-Za-z0-9_][A-Za-z0-9_.-]*", r"\[[0-9A-Fa-f:.]+\]"
_NODE = re.compile(rf"(?:{_USER}@)?(?:{_NAME}|{_IPV6})")
_LONGEST = 255


def can_be_node(word: str) -> bool:
    """Whether it is NODE or USER@NODE, as ssh knows them."""
    return len(word) <= _LONGEST and _NODE.fullmatch(word) is not None

"""What the Why screen shows: findings about one device of a process, each with the numbers behind it."""

from __future__ import annotations

from dataclasses import dataclass, field

from gputui.model.weight import Weight


@dataclass(frozen=True, slots=True)
class Finding:
    """`kind` is the rule's name, which the table of rules sets; `evidence` are sentences with numbers.

    `remedy` is "" if there is nothing to do. `bytes` is how much memory it is about (0: none). `addresses` are the
    segments or blocks it points at, the largest first, and `owners` their names; `screen` is where to see them, "map"
    or "tensors", "" if there is nothing to see. `needs_look`: a look that the user asks for would tell more.
    """

    kind: str = field(default="", kw_only=True)
    weight: Weight
    title: str
    evidence: tuple[str, ...]
    remedy: str = ""
    bytes: int = 0
    screen: str = ""
    needs_look: bool = False
    addresses: tuple[int, ...] = ()
    owners: tuple[str, ...] = ()
    until: float = 0.0
    """When it last held (epoch seconds), if it no longer does."""

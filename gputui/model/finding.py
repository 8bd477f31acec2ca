"""What the Why screen says: sentences about one device of a process, each with the numbers that it follows from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Weight(str, Enum):
    """How much a finding asks of the reader."""

    PROBLEM = "problem"
    """Something failed, or will."""
    ADVICE = "advice"
    """Memory or time can be had."""
    FACT = "fact"
    """A number that people ask for."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`kind` names the rule; `evidence` are sentences with numbers, `remedy` is "" where there is nothing to do.

    `bytes` is how much memory it is about (0: none). `addresses` are those of the segments or blocks that it points
    at, the weightiest first, and `owners` the names that go with them; `screen` is where to see them, "map" or
    "tensors", "" where there is nothing to see. `needs_look`: a look that the user asks for would tell more.
    """

    kind: str
    weight: Weight
    title: str
    evidence: tuple[str, ...]
    remedy: str = ""
    bytes: int = 0
    screen: str = ""
    needs_look: bool = False
    addresses: tuple[int, ...] = ()
    owners: tuple[str, ...] = ()

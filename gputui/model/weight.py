"""How much a finding matters, about a program or about the machine."""

from __future__ import annotations

from enum import Enum


class Weight(str, Enum):
    """How much a finding matters."""

    PROBLEM = "problem"
    """Something failed, or is about to."""
    ADVICE = "advice"
    """Memory or time can be saved."""
    FACT = "fact"
    """A number that people ask about."""

"""What `gputui check` is asked about: one step, its budget, and what its peak is compared with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from gputui.errors import UsageError, did_you_mean
from gputui.explain.check.devices import device_of
from gputui.explain.whatif.by_hand import bytes_of

TOLERANCE = 0.01
"""By so much a peak may rise above its baseline where the target does not say otherwise."""
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True, slots=True)
class Target:
    """A step to rehearse: `function` is "MODULE:FUNCTION", `arguments` are what it is called with.

    `settings` are written as in PYTORCH_ALLOC_CONF. `budget_bytes` None: every peak fits. `tolerance` is a share.
    """

    name: str
    function: str
    arguments: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    settings: str = ""
    budget_bytes: int | None = None
    tolerance: float = TOLERANCE


@dataclass(frozen=True, slots=True)
class Row:
    """An entry of `[[tool.gputui.check]]` as it is written there; the names of the fields are its keys."""

    function: str
    name: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    settings: str = ""
    device: str = ""
    budget: str = ""
    tolerance: str = ""


_TYPES = {"arguments": dict}


def target_of(raw: Mapping[str, Any]) -> Target:
    """The target of an entry of the table. Raises UsageError with the key that is wrong."""
    known = [one.name for one in fields(Row)]
    for key, value in raw.items():
        if key not in known:
            cause = f"A target of [[tool.gputui.check]] has no key {key!r}."
            raise UsageError(cause, did_you_mean(key, known) or f"Its keys are {', '.join(known)}.")
        if not isinstance(value, _TYPES.get(key, str)):
            form = "a table" if key in _TYPES else "a text in quotes"
            cause = f"{key} of a target of [[tool.gputui.check]] cannot be {value!r}."
            raise UsageError(cause, f"Write {form}.")
    if "function" not in raw:
        cause = "A target of [[tool.gputui.check]] names no function."
        raise UsageError(cause, 'Write function = "MODULE:FUNCTION", such as "train:setup".')
    row = Row(**raw)
    return Target(
        row.name or row.function,
        row.function,
        MappingProxyType(row.arguments),
        row.settings,
        budget_of(row.budget, row.device),
        tolerance_of(row.tolerance) if row.tolerance else TOLERANCE,
    )


def budget_of(budget: str, device: str) -> int | None:
    """The bytes that PyTorch may reserve; None where neither is given. Raises UsageError where both are."""
    if budget and device:
        cause = "A budget and a device are two answers to the same question."
        raise UsageError(cause, "Give one of them.")
    if device:
        return device_of(device).budget_bytes
    return bytes_of(budget) if budget else None


def tolerance_of(words: str) -> float:
    """The share in "2%". Raises UsageError."""
    match = _SHARE.fullmatch(words.strip())
    if match is None:
        cause = f"A tolerance cannot be {words!r}."
        raise UsageError(cause, "Write a share in percent, such as 2%.")
    return float(match[1]) / 100

"""A case as people write it: settings, a batch and a device in one line."""

from __future__ import annotations

import re

from gputui.errors import UsageError
from gputui.explain.whatif.allocator.settings import pairs
from gputui.explain.whatif.cases import Case
from gputui.explain.whatif.changes import BY_NAME, label_of

UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT](?:i?B)?|B)?", re.IGNORECASE)
_BATCH = re.compile(r"\d+:\d+")


def case_of(line: str) -> Case:
    """The case in words such as "expandable_segments:True 4:16 24GiB", in any order. Raises UsageError.

    `4:16` is the recorded batch and the one to try, a size is the device's memory, a name without a value is a change
    of the program; all other words are settings of the allocator.
    """
    settings: list[str] = []
    changes: list[str] = []
    batch, size = None, ""
    for word in line.split():
        if _BATCH.fullmatch(word):
            batch = batch_of(word)
        elif _SIZE.fullmatch(word):
            size = word
        elif word.strip(",") in BY_NAME:
            changes.append(word.strip(","))
        else:
            settings.append(word.strip(","))
    joined = ",".join(settings)
    pairs(joined)  # raises UsageError
    parts = joined, label_of(changes), batch_label(batch) if batch else "", f"with {size} of memory" if size else ""
    return Case(
        ", ".join(part for part in parts if part),
        joined,
        batch,
        bytes_of(size) if size else None,
        changes=tuple(changes),
    )


def batch_label(batch: tuple[int, int]) -> str:
    """The label of a case with another batch."""
    return f"batch {batch[1]} instead of {batch[0]}"


def batch_of(value: str) -> tuple[int, int]:
    """The recorded batch and the one to try, from "4:16". Raises UsageError."""
    now, _, then = value.partition(":")
    if not (now.isdecimal() and then.isdecimal() and int(now) and int(then)):
        cause = f"A batch cannot be {value!r}."
        raise UsageError(cause, "Write the recorded batch and the other one, such as 4:16.")
    return int(now), int(then)


def bytes_of(value: str) -> int:
    """The bytes in a size such as "24GiB". Raises UsageError."""
    match = _SIZE.fullmatch(value.strip())
    if match is None or not float(match[1]) or not match[2]:
        cause = f"A device's memory cannot be {value!r}."
        raise UsageError(cause, "Write a size with its unit, such as 24GiB.")
    return int(float(match[1]) * UNITS[match[2][0].upper()])

"""Which variants of a step fit a device, and with how much to spare: as it is, with a setting, or changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gputui.explain.whatif.advice import DEFAULT_EXPANDABLE
from gputui.explain.whatif.cases import AS_WRITTEN, Answer, Case, LargestBatch, answer, changes_of, largest_batch
from gputui.explain.whatif.changes import EVALUATION
from gputui.explain.whatif.replay.recorded import Recorded

BATCH_ARGUMENTS = ("batch", "batch_size")
"""Arguments of the user's function that are taken for the batch."""


@dataclass(frozen=True, slots=True)
class Option:
    """A way to run the step on the device. `spare_bytes` is None where it does not fit.

    `largest` is None where the rehearsed batch is not known, no batch fits, or every batch does.
    """

    answer: Answer
    spare_bytes: int | None
    largest: LargestBatch | None


def plan_of(recorded: Recorded, budget_bytes: int, arguments: Mapping[str, Any]) -> Iterator[Option]:
    """The ways to run a step on a device, the cheapest first."""
    for case in _cases(recorded):
        yield option_of(recorded, case, budget_bytes, arguments)


def option_of(recorded: Recorded, case: Case, budget_bytes: int, arguments: Mapping[str, Any]) -> Option:
    """A case on a device, with the largest batch where `arguments` say which batch was rehearsed."""
    batch = _batch_of(arguments)
    on_device = replace(case, device_memory_bytes=budget_bytes)
    found = answer(recorded, on_device)
    spare = None if found.outcome.is_out_of_memory else budget_bytes - found.outcome.peak_reserved_bytes
    largest = largest_batch(recorded, batch, replace(on_device, batch=(batch, batch))) if batch else None
    return Option(found, spare, largest)


def _cases(recorded: Recorded) -> list[Case]:
    cases = [AS_WRITTEN]
    if not recorded.settings.is_expandable:
        cases.append(DEFAULT_EXPANDABLE)
    return cases + [case for case in changes_of(recorded) if EVALUATION not in case.changes]


def _batch_of(arguments: Mapping[str, Any]) -> int | None:
    """The batch that the function is called with, where an argument is named for it."""
    given = (arguments.get(name) for name in BATCH_ARGUMENTS)
    return next((value for value in given if isinstance(value, int) and value > 0), None)

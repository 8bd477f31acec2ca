"""The what-if document (schema gputui.whatif/1) as plain JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gputui.explain.whatif.allocator.settings import pairs
from gputui.explain.whatif.cases import Answer, LargestBatch
from gputui.explain.whatif.replay.recorded import Recorded


def whatif_document(
    recorded: Recorded,
    baseline: Answer,
    answers: Sequence[Answer],
    largest: LargestBatch | None = None,
    problems: Sequence[str] = (),
) -> dict[str, Any]:
    """The document; `answers` are in the order of the user's cases, `problems` are sentences."""
    return {
        "schema": "gputui.whatif/1",
        "baseline": {"settings": dict(recorded.settings.values), **_outcome(baseline)},
        "cases": [_case(answer) for answer in answers],
        "largest_batch": largest.batch if largest else None,
        "largest_batch_peak_reserved_bytes": largest.peak_reserved_bytes if largest else None,
        "largest_batch_retries": largest.retries if largest else None,
        "largest_batch_without_retries": largest.without_retries if largest else None,
        "bytes_per_sample": largest.bytes_per_sample if largest else None,
        "problems": list(problems),
    }


def _case(answer: Answer) -> dict[str, Any]:
    case = answer.case
    return {
        "settings": pairs(case.settings),
        "changes": list(case.changes),
        "batch": case.batch[1] if case.batch else None,
        "device_memory_bytes": case.device_memory_bytes,
        **_outcome(answer),
        "label": case.label,
    }


def _outcome(answer: Answer) -> dict[str, Any]:
    outcome = answer.outcome
    return {
        "peak_reserved_bytes": outcome.peak_reserved_bytes,
        "peak_allocated_bytes": outcome.peak_allocated_bytes,
        "stuck_bytes": outcome.stuck_bytes,
        "retries": outcome.retries,
        "out_of_memory": outcome.is_out_of_memory,
        "known": answer.known.value,
    }

"""The document (schema gputui.check-serving/1) of a server that has not started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from gputui.explain.serving.ahead.estimates import Between
from gputui.explain.serving.ahead.start import End, Start
from gputui.explain.serving.ahead.words import doubts
from gputui.explain.serving.capacity import longest_in_document


def start_document(start: Start, others: Sequence[tuple[str, Start]]) -> dict[str, Any]:
    """The document; `least` and `most` are the worst and the best case, bytes are those on each device."""
    return {
        "schema": "gputui.check-serving/1",
        **_answer(start),
        "model": start.flags.model,
        "device": {"name": start.device.name, "total_bytes": _range(start.device.total_bytes)},
        "devices": start.flags.tensor_parallel_size,
        "settings": asdict(start.settings),
        "weights": asdict(start.weights),
        "parts": {name: _range(size) for name, size in start.parts.items()},
        "bytes_per_token": start.cache.bytes_per_token,
        "bytes_per_block": start.cache.bytes_per_block,
        "other_flags": [{"flags": words, **_answer(other)} for words, other in others],
        "not_considered": [*start.flags.apart, *start.flags.others],
        "problems": list(doubts(start)),
    }


def _answer(start: Start) -> dict[str, Any]:
    return {
        "verdict": start.verdict.value,
        "error": start.error or None,
        "least": _end(start.worst),
        "most": _end(start.best),
    }


def _end(end: End) -> dict[str, int | None]:
    return {
        "kv_bytes": end.kv_bytes,
        "blocks": end.blocks,
        "tokens": end.tokens,
        "longest_request_tokens": longest_in_document(end.longest),
    }


def _range(size: Between) -> dict[str, int]:
    return {"least": size.least, "most": size.most}

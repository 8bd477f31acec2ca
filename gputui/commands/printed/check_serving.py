"""The check of a server's command line as text: the answer first, then the parts of the memory, then other flags."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.commands.printed.page import paragraphs
from gputui.commands.printed.whatif import table
from gputui.explain.serving.ahead.estimates import Between
from gputui.explain.serving.ahead.start import Start, Verdict
from gputui.explain.serving.ahead.words import (
    PARTS,
    between,
    between_bytes,
    cache_words,
    doubts,
    error_words,
    headline,
    length_words,
    requests,
    weights_words,
)
from gputui.output import cut
from gputui.units import format_bytes

HEADINGS = ("with", "KV cache", "tokens", "requests")
DOUBTS = {Verdict.REFUSES: "does not start", Verdict.NOT_SURE: "may not start"}
ESTIMATED = "estimated"


def serving_report(start: Start, others: Sequence[tuple[str, Start]], width: int) -> str:
    """Lines of text."""
    lines = paragraphs((headline(start), error_words(start), length_words(start)), width)
    total = start.device.total_bytes
    lines += [
        "",
        f"{'Each' if start.flags.tensor_parallel_size > 1 else 'The'} {start.device.name}: {between_bytes(total)}",
    ]
    lines += [cut(f"{size:>17}  {name:<17}  {note}".rstrip(), width) for size, name, note in _rows(start)]
    if others:
        lines += ["", *table(HEADINGS, (_other(words, other) for words, other in others), width)]
    notes = paragraphs(doubts(start), width)
    return "\n".join(lines + (["", *notes] if notes else [])) + "\n"


def _rows(start: Start) -> list[tuple[str, str, str]]:
    """Size, name and note of each part of the device."""
    notes = {"weights": weights_words(start)}
    rows = [
        (between_bytes(size), PARTS[key], notes.get(key, ESTIMATED)) for key, size in start.parts.items() if size.most
    ]
    rows[0] = (format_bytes(start.weights.bytes), *rows[0][1:])
    kv = Between(start.worst.kv_bytes, start.best.kv_bytes)
    rows.append((between_bytes(kv), "KV cache", cache_words(start)))
    total = start.device.total_bytes
    left = Between(total.least - start.worst.requested_bytes, total.most - start.best.requested_bytes)
    utilization = start.settings.gpu_memory_utilization
    note = f"gpu_memory_utilization={utilization:g}; CUDA context"
    rows.append((between_bytes(left), "left", note))
    return rows


def _other(words: str, start: Start) -> tuple[str, ...]:
    kv = between_bytes(Between(start.worst.kv_bytes, start.best.kv_bytes))
    if start.verdict is not Verdict.STARTS:
        return words, kv, DOUBTS[start.verdict], ""
    return words, kv, between(start.worst.tokens, start.best.tokens), requests(start)

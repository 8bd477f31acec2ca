"""`gputui whatif PID --set max_model_len:131072`: what a running server would have with other flags."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from gputui.commands.printed.whatif import table
from gputui.commands.reach.probes import attached, put_probes_in
from gputui.errors import GputuiError
from gputui.explain.documents.serving import result_document
from gputui.explain.serving.asked import flags_of
from gputui.explain.serving.capacity import longest_in_words
from gputui.explain.serving.other_flags import Flags, Result, with_flags
from gputui.output import put, put_document
from gputui.units import format_bytes

HEADINGS = ("flags", "KV cache", "blocks", "tokens", "longest")
NOT_KNOWN = "Process {} runs no server whose arithmetic is known: vLLM 0.11 or newer, with its model in this process."

ABOUT = (
    "About: tables of another size, layers of several kinds, other devices or no CUDA graphs; the rest is the server's"
    " own arithmetic, to the block."
)


def answer(
    pid: int, asked: Sequence[str], device_memory: int | None, *, as_json: bool, is_sure: bool, width: int
) -> int:
    """Print what the server has, and what it would have with each of these flags; raises GputuiError."""
    cases = [Flags(), *(flags_of(settings, device_memory) for settings in asked)]
    put_probes_in([pid], is_assumed=is_sure or as_json, limit_s=None)
    with attached(pid, "gputui whatif") as client:
        serving = client.statistics().serving
    results = [with_flags(serving, flags) if serving else None for flags in cases]
    known = [result for result in results if result is not None]
    if len(known) < len(cases):
        raise GputuiError(NOT_KNOWN.format(pid), "`gputui attach PID --once` says what is in the process.")
    if as_json:
        now, *others = map(result_document, known)
        put_document({"schema": "gputui.whatif-serving/1", "now": now, "cases": others})
    else:
        put(_report(known, width))
    return 0


def _report(results: Sequence[Result], width: int) -> str:
    lines = table(HEADINGS, map(_row, results), width)
    notes = [f"With {result.flags.words}, {result.error}." for result in results if result.error]
    if not all(result.is_exact for result in results):
        notes.append(ABOUT)
    lines += [line for note in notes for line in textwrap.wrap(note, width)]
    return "\n".join(lines) + "\n"


def _row(result: Result) -> tuple[str, ...]:
    name, about = result.flags.words or "as it is", "" if result.is_exact else "about "
    size, longest = format_bytes(result.kv_bytes), longest_in_words(result.longest)
    if result.error:
        return name, size, "does not start", "", longest
    return name, size, f"{about}{result.blocks:,}", f"{result.tokens:,}", longest

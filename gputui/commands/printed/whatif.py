"""A what-if as text for people: the best answer first, then a table of all cases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gputui.explain.whatif.cases import Answer, LargestBatch
from gputui.explain.whatif.words import by_saving, headline, largest_words
from gputui.output import columns_of, cut, padded
from gputui.units import format_bytes, format_bytes_signed

HEADINGS = ("case", "peak reserved", "change", "peak allocated", "known")


def whatif_report(
    baseline: Answer, answers: Sequence[Answer], largest: LargestBatch | None, problems: Sequence[str], width: int
) -> str:
    """Lines of text: the headline, the largest batch, the table, and the problems."""
    lines = [headline(baseline, answers)]
    if largest is not None:
        lines.append(largest_words(largest))
    lines.append("")
    lines += _table(baseline, answers, width)
    lines += ["", *problems] if problems else []
    return "\n".join(lines) + "\n"


def _table(baseline: Answer, answers: Sequence[Answer], width: int) -> list[str]:
    """The recorded case, then the others: those that take least first, those that do not fit last."""
    return table(
        HEADINGS, (_row(baseline, answer) for answer in (baseline, *by_saving(answers))), width, to_left=(0, 4)
    )


def table(
    headings: tuple[str, ...], body: Iterable[tuple[str, ...]], width: int, to_left: Sequence[int] = (0,)
) -> list[str]:
    """Lines of columns: those in `to_left` begin at the left, the others end at the right; the first is cut to fit."""
    rows = [headings, *body]
    widths = [max(columns_of(row[column]) for row in rows) for column in range(len(headings))]
    widths[0] = max(12, min(widths[0], width - sum(widths[1:]) - 2 * (len(headings) - 1)))
    return [
        "  ".join(
            padded(cut(text, widths[column]), widths[column]) if column in to_left else text.rjust(widths[column])
            for column, text in enumerate(row)
        ).rstrip()
        for row in rows
    ]


def _row(baseline: Answer, answer: Answer) -> tuple[str, ...]:
    outcome = answer.outcome
    if outcome.is_out_of_memory:
        return answer.case.label, "out of memory", "", format_bytes(outcome.peak_allocated_bytes), answer.known.value
    is_comparable = not baseline.outcome.is_out_of_memory
    change = outcome.peak_reserved_bytes - baseline.outcome.peak_reserved_bytes if is_comparable else 0
    return (
        answer.case.label,
        format_bytes(outcome.peak_reserved_bytes),
        format_bytes_signed(change) if change else "",
        format_bytes(outcome.peak_allocated_bytes),
        answer.known.value,
    )

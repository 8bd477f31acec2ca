"""A check as text: for people, for GitHub's annotations, and for the page of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gputui.commands.printed.page import paragraphs
from gputui.commands.printed.whatif import table
from gputui.explain.check.checked import Checked
from gputui.explain.check.peak import Holder, Peak
from gputui.explain.check.plan import Option
from gputui.explain.check.words import category_words, cause_of_rise, held_words, place_words, verdict
from gputui.explain.owners.names import family
from gputui.output import cut
from gputui.units import format_bytes

HOLDERS_SHOWN = 12
Group = tuple[str, str, str, str]
"""Category, modules (with * for the numbers of layers), operation, line."""


def sentences_of(check: Checked) -> list[str]:
    """The verdict first, then why it failed, then what holds the peak."""
    because = cause_of_rise(check) if check.is_risen else []
    return [verdict(check), *because, held_words(check.peak)]


def check_report(check: Checked, width: int) -> str:
    """Lines of text: what was found, then a table of what holds the peak."""
    lines = paragraphs(sentences_of(check), width)
    peak = check.peak
    lines += ["", f"Allocated at the peak: {format_bytes(peak.allocated_bytes)}"]
    lines += [cut(_row(peak, group, size_bytes), width) for group, size_bytes in _groups(peak)]
    if check.plan:
        lines += ["", f"What would fit {format_bytes(check.target.budget_bytes or 0)}, the cheapest change first"]
        lines += table(("change", "peak reserved", "to spare", "largest batch"), map(_option, check.plan), width)
    return "\n".join(lines) + "\n"


def _option(option: Option) -> tuple[str, ...]:
    peak = option.answer.outcome.peak_reserved_bytes
    spare = "out of memory" if option.spare_bytes is None else format_bytes(option.spare_bytes)
    largest = f"{option.largest.batch:,}" if option.largest else ""
    return option.answer.case.label, format_bytes(peak) if option.spare_bytes is not None else "", spare, largest


def _groups(peak: Peak) -> list[tuple[Group, int]]:
    """The largest holders; layers that differ only in their number are one group."""
    sums: Counter[Group] = Counter()
    for holder in peak.holders:
        sums[_group(holder)] += holder.bytes
    return sums.most_common(HOLDERS_SHOWN)


def _group(holder: Holder) -> Group:
    module = family(f".{holder.module}").removeprefix(".")  # a path may begin with a number
    return holder.category, module, holder.operation, place_words(holder)


def _row(peak: Peak, group: Group, size_bytes: int) -> str:
    category, module, operation, line = group
    share = size_bytes / peak.allocated_bytes if peak.allocated_bytes else 0
    where = "  ".join(filter(None, (module, operation, line)))
    return f"  {format_bytes(size_bytes):>9} {share:>4.0%}  {category_words(category):<15}  {where}".rstrip()


def annotation(check: Checked) -> str:
    """A line that GitHub shows at the line of the change: an error where the check fails, else a notice."""
    holder = next((change.holder for change in check.changes if change.holder and change.bytes_more > 0), None)
    line = holder.line if holder and check.is_risen else None
    where = f"file={_escaped(line.file, in_value=True)},line={line.line}," if line else ""
    kind = "error" if check.fails else "notice"
    text = _escaped(" ".join(sentences_of(check)))
    return f"::{kind} {where}title={_escaped(f'gputui check: {check.target.name}', in_value=True)}::{text}\n"


_ESCAPES = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_ESCAPES_IN_VALUES = {":": "%3A", ",": "%2C"}


def _escaped(text: str, *, in_value: bool = False) -> str:
    """As GitHub's workflow commands want it."""
    table = {**_ESCAPES, **(_ESCAPES_IN_VALUES if in_value else {})}
    return "".join(table.get(character, character) for character in text)


def summary_page(checks: Sequence[Checked]) -> str:
    """Markdown for the page of a job: a table of the targets, and the reasons of those that fail."""
    rows = ["| step | peak | baseline | budget | |", "| --- | ---: | ---: | ---: | --- |"]
    for check in checks:
        baseline = format_bytes(check.baseline.reserved_bytes) if check.baseline else ""
        budget = format_bytes(check.target.budget_bytes) if check.target.budget_bytes is not None else ""
        outcome = "**fails**" if check.fails else "passes"
        peak = format_bytes(check.peak.reserved_bytes)
        rows.append(f"| {_cell(check.target.name)} | {peak} | {baseline} | {budget} | {outcome} |")
    reasons = [f"- {_cell(' '.join(sentences_of(check)))}" for check in checks if check.fails]
    return "\n".join(["### GPU memory, rehearsed without a GPU", "", *rows, "", *reasons]) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")

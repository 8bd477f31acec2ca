"""A check in sentences: whether the step fits, why its peak differs from its baseline, and what holds the memory."""

from __future__ import annotations

from gputui.explain.check.baseline import Change
from gputui.explain.check.checked import Checked
from gputui.explain.check.peak import Holder, Peak
from gputui.model.attached.tensors import CATEGORIES, Category
from gputui.units import format_bytes, format_bytes_signed

CATEGORIES_NAMED = 3
OPERATIONS_NAMED = 2
_OTHER_WORDS = {"temporary": "temporaries", "batch": "the batch", "rounding": "rounding", "other": "other tensors"}
_PHASES = {
    "model": "while the model is built",
    "batch": "before the first step",
    "forward": "in the forward pass",
    "backward": "in the backward pass",
    "optimizer": "in the optimizer",
    "step": "in the step",
}


def category_words(category: str) -> str:
    """The plural of a category: "activations"."""
    if category in _OTHER_WORDS:
        return _OTHER_WORDS[category]
    return CATEGORIES[Category(category)].plural


def verdict(check: Checked) -> str:
    """The first words: how the peak has risen, or else how much the step needs; and whether that fits."""
    budget = check.target.budget_bytes
    if check.is_risen:
        return _risen(check) if check.fits is not False else f"{_risen(check)} This is {_over(check)}"
    need = f"{check.target.name} needs {format_bytes(check.peak.reserved_bytes)} {_where(check.peak)}"
    if budget is None:
        return f"{need}."
    if check.fits:
        return f"{need} and fits {format_bytes(budget)}{_spare(check, budget)}."
    return f"{need}: {_over(check)}"


def _over(check: Checked) -> str:
    budget = check.target.budget_bytes or 0
    failed = format_bytes(check.peak.outcome.failed_request_bytes)
    over = format_bytes(check.peak.reserved_bytes - budget)
    return f"{over} more than its budget of {format_bytes(budget)}, where a request of {failed} fails."


def _spare(check: Checked, budget: int) -> str:
    spare = budget - check.peak.reserved_bytes
    if spare >= 0:
        return f" with {format_bytes(spare)} to spare"
    times = check.peak.outcome.retries
    often = "once" if times == 1 else f"{times} times"
    return f" only because PyTorch empties its cache {often}"


def _risen(check: Checked) -> str:
    assert check.baseline is not None
    now, then = check.peak.reserved_bytes, check.baseline.reserved_bytes
    share = f" ({(now - then) / then:+.0%})" if then else ""
    return (
        f"{check.target.name} needs {format_bytes(now)}, {format_bytes_signed(now - then)}{share} against its baseline"
        f" of {format_bytes(then)}."
    )


def _where(peak: Peak) -> str:
    return f"at its peak{' ' + _PHASES[peak.phase] if peak.phase in _PHASES else ''}"


def cause_of_rise(check: Checked) -> list[str]:
    """What grew most since the baseline, as one or two sentences; the first names the line of the program."""
    grown = [change for change in check.changes if change.bytes_more > 0]
    if not grown:
        return ["No tensor holds more at the peak: what PyTorch rounds up, or cannot use between tensors, has grown."]
    first = grown[0]
    sentences = [_change_words(first)]
    alike = [
        change for change in grown[1:] if (change.category, change.bytes_more) == (first.category, first.bytes_more)
    ]
    if alike:
        names = ", ".join(change.module for change in alike[:CATEGORIES_NAMED])
        more = f" and {len(alike) - CATEGORIES_NAMED} more" if len(alike) > CATEGORIES_NAMED else ""
        sentences.append(f"As much more each: {names}{more}.")
    return sentences


def _change_words(change: Change) -> str:
    where = f" of {change.module}" if change.module else ""
    what = category_words(change.category)
    by = ", ".join(f"{name} {format_bytes_signed(more)}" for name, more in change.operations[:OPERATIONS_NAMED] if name)
    line = f" at {place_words(change.holder)}" if change.holder and change.holder.line else ""
    because = f": {by}{line}" if by else line
    return (
        f"{what[:1].upper()}{what[1:]}{where} hold {format_bytes_signed(change.bytes_more)}"
        f" ({format_bytes(change.bytes_before)} before, {format_bytes(change.bytes_now)} now){because}."
    )


def held_words(peak: Peak) -> str:
    """The categories that hold most at the peak, in one sentence."""
    categories = list(peak.bytes_by_category().items())[:CATEGORIES_NAMED]
    held = ", ".join(f"{category_words(category)} {format_bytes(size_bytes)}" for category, size_bytes in categories)
    return f"Held by {held}."


def place_words(holder: Holder) -> str:
    """The file and line of a holder, "" where no line is known."""
    return f"{holder.line.file}:{holder.line.line}" if holder.line else ""


def other_version(check: Checked) -> str:
    """The sentence that the baseline is of another version of PyTorch."""
    assert check.baseline is not None
    return (
        f"The baseline of {check.target.name} was made with PyTorch {check.baseline.torch}, and this is"
        f" {check.peak.torch}, which may need other memory for the same step. Make it again with --update."
    )

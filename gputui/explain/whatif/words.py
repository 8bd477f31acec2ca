"""The outcome of a what-if in sentences: what would save the most, the largest batch, and why figures are not sure."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.explain.whatif.cases import Answer, LargestBatch
from gputui.explain.whatif.changes import EVALUATION
from gputui.explain.whatif.replay.recorded import Recorded
from gputui.units import format_bytes

WORTH_SAYING = 0.01
"""The share of the reserved peak that a change must save to be worth naming."""
ENDS_WITH_A_FAILURE = (
    "The trace ends with the request that failed: what the program would have asked for after it is not known."
)
_HOW_BEFORE = {
    False: "allocates them first, one after the other",
    True: "comes there by steps like the recorded one",
}


def headline(baseline: Answer, answers: Sequence[Answer]) -> str:
    """What would save the most memory, or what would have met a request that failed; at most two sentences.

    `answers` are ordered by their cost, the cheapest first, where that is known.
    """
    if baseline.outcome.unmet_requests:
        return _about_failures(baseline, answers)
    fitting = [answer for answer in answers if not answer.outcome.is_out_of_memory and not answer.case.batch]
    fitting = [answer for answer in fitting if EVALUATION not in answer.case.changes] or fitting
    if baseline.outcome.is_out_of_memory:
        return _about_room(baseline, fitting[0] if fitting else None)
    changes = [answer for answer in fitting if len(answer.case.changes) == 1]
    settings = [answer for answer in fitting if not answer.case.changes]
    first = settings or changes  # a setting changes nothing that is computed
    if saved := _saved(baseline, _smallest(first)):
        return _capital(saved)
    as_it_is = f"{baseline.case.label}, this takes {format_bytes(baseline.outcome.peak_reserved_bytes)} at its peak."
    if not first:
        return _capital(as_it_is)
    if saved := _saved(baseline, _smallest(changes)):
        return f"No setting here saves memory; {saved}"
    return f"No setting here saves memory: {as_it_is}"


def _smallest(answers: Sequence[Answer]) -> Answer | None:
    return min(answers, key=lambda answer: answer.outcome.peak_reserved_bytes, default=None)


def _saved(baseline: Answer, best: Answer | None) -> str:
    """What the best of the cases would take, "" if it saves less than `WORTH_SAYING`."""
    now = baseline.outcome.peak_reserved_bytes
    then = best.outcome.peak_reserved_bytes if best else now
    if best is None or now - then < WORTH_SAYING * now:
        return ""
    return (
        f"{best.case.label} would take {format_bytes(then)} at the peak instead of {format_bytes(now)}"
        f" ({(now - then) / now:.0%} less, {best.known.value})."
    )


def _capital(words: str) -> str:
    """The words with a capital letter, unless they begin with the name of a setting."""
    return words if ":" in words.split(" ", maxsplit=1)[0] else f"{words[:1].upper()}{words[1:]}"


def _about_room(baseline: Answer, cheapest: Answer | None) -> str:
    """Which case fits at the least cost, where the unchanged case does not fit the device."""
    failed = format_bytes(baseline.outcome.failed_request_bytes)
    does_not_fit = f"{_capital(baseline.case.label)}, this does not fit: a request of {failed} fails."
    if cheapest is None:
        return f"{does_not_fit} No case here fits."
    takes = format_bytes(cheapest.outcome.peak_reserved_bytes)
    return f"{does_not_fit} {_capital(cheapest.case.label)} would fit: it would take {takes}."


def _about_failures(baseline: Answer, answers: Sequence[Answer]) -> str:
    """Which case makes room for the requests that failed in the recording: a setting if one does, else another case."""
    unmet = baseline.outcome.unmet_requests
    requests = "the request that failed" if unmet == 1 else f"the {unmet} requests that failed"
    fitting = [answer for answer in answers if not answer.outcome.is_out_of_memory]
    settings = [answer for answer in answers if answer.case.settings and not answer.case.batch]
    best = _meeting_most([answer for answer in settings if answer in fitting])
    if best is not None and best.outcome.unmet_requests < unmet:
        left = best.outcome.unmet_requests
        rest = f" for all but {left} of" if left else " for"
        return f"{best.case.label} would have made room{rest} {requests} ({best.known.value})."
    nothing = f"No {'setting' if settings else 'case'} here makes room for {requests}."
    others = [answer for answer in fitting if answer not in settings and EVALUATION not in answer.case.changes]
    cheapest_first = [answer for answer in others if answer.case.changes] or others
    other = min(cheapest_first, key=lambda answer: answer.outcome.unmet_requests, default=None)
    if other is None or other.outcome.unmet_requests:
        return nothing
    if settings:
        return f"{nothing} {_capital(other.case.label)} would ({other.known.value})."
    return f"{_capital(other.case.label)} would have made room for {requests} ({other.known.value})."


def _meeting_most(answers: Sequence[Answer]) -> Answer | None:
    """The answer in which the fewest requests fail, and of equal ones the one with the smallest peak."""
    order = [(answer.outcome.unmet_requests, answer.outcome.peak_reserved_bytes) for answer in answers]
    return answers[order.index(min(order))] if answers else None


def problems_of(recorded: Recorded, baseline: Answer) -> list[str]:
    """Why the answers are not sure, as sentences."""
    if recorded.is_ahead:
        return list(recorded.doubts)
    problems = []
    if recorded.operations.failure_at_end >= 0:
        problems.append(ENDS_WITH_A_FAILURE)
    assert recorded.recorded_peak_bytes is not None
    if baseline.outcome.peak_reserved_bytes != recorded.recorded_peak_bytes and not baseline.outcome.is_out_of_memory:
        problems.append(
            f"The replay under the recorded settings reserves {format_bytes(baseline.outcome.peak_reserved_bytes)} at"
            f" its peak, the recording {format_bytes(recorded.recorded_peak_bytes)}."
        )
    if recorded.operations.earlier:
        before = (
            f"The trace does not begin with the program: {recorded.operations.earlier} blocks existed before it, and"
        )
        problems.append(f"{before} the replay of another setting {_HOW_BEFORE[recorded.beginning is not None]}.")
    if recorded.operations.doubtful_releases:
        problems.append(
            f"{recorded.operations.doubtful_releases} releases may have been PyTorch's own, before it asked for more"
            " memory; they are replayed as calls of empty_cache()."
        )
    return problems


def largest_words(largest: LargestBatch) -> str:
    """The largest batch that fits, in a sentence."""
    fits = (
        f"At most a batch of {largest.batch} fits"
        if largest.is_bound
        else f"The largest batch that fits is {largest.batch}"
    )
    reserved = f"{fits}: it would reserve {format_bytes(largest.peak_reserved_bytes)}"
    each = f"ne more sample costs {format_bytes(largest.bytes_per_sample)}."
    if not largest.retries:
        return f"{reserved}; o{each}"
    others = f"{largest.without_retries or 'no batch'} fits without that"
    return f"{reserved}, after emptying its cache {_times(largest.retries)}; {others}. O{each}"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def by_saving(answers: Sequence[Answer]) -> list[Answer]:
    """The answers by their reserved peak, the smallest first; those that run out of memory come last."""
    return sorted(answers, key=lambda answer: (answer.outcome.is_out_of_memory, answer.outcome.peak_reserved_bytes))

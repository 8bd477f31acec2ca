"""Allocations that failed or were retried, when that was, and the largest one that would succeed now."""

from __future__ import annotations

from gputui.explain.advice.allocator.expandable import caution, setting
from gputui.explain.advice.situation import Situation
from gputui.explain.advice.thresholds import NEEDED_SHARE, RETRIES_PER_MINUTE
from gputui.model.attached.analysis import Finding
from gputui.model.reading import value_of
from gputui.model.weight import Weight
from gputui.units import format_bytes, format_clock

FREE_SOMETHING = "Free some of the memory of the largest holder, or use a smaller batch."
REQUEST_TOO_LARGE = (
    "PyTorch never reserved even half of the device, so the request itself was too large, or other processes held the"
    " memory: the error's text names the size and what was free."
)
LESS_AT_ONCE = (
    "Use a smaller batch, activation checkpointing, or fewer other processes on the device: each retry makes the"
    " program wait, and the next may fail."
)
OTHER_SIZES = (
    "Start the program with {setting}, or pad batches to a few fixed lengths: the cache holds pieces of other sizes"
    " than those that are asked for, as when lengths change from batch to batch. {caution}"
)


def out_of_memory(situation: Situation) -> Finding | None:
    """An allocation failed."""
    counters = situation.device.statistics
    if not counters.num_ooms or _is_the_failure(situation):
        return None
    evidence = [_since(situation, "num_ooms", counters.num_ooms), _levels(situation)]
    room = situation.device.room
    if room is not None and not situation.moment.ended:
        evidence.append(f"A tensor of up to {format_bytes(room.after_release_bytes)} fits now.")
    return Finding(
        weight=Weight.PROBLEM,
        title=f"Out of memory: an allocation failed {_times(counters.num_ooms)}.",
        evidence=tuple(evidence),
        remedy=REQUEST_TOO_LARGE if situation.was_never_full else FREE_SOMETHING,
    )


def retries(situation: Situation) -> Finding | None:
    """The allocator had to release its cache before the driver could serve a request."""
    counters = situation.device.statistics
    if not counters.num_alloc_retries or _is_the_failure(situation):
        return None
    per_minute = _per_minute(situation)
    often = per_minute >= RETRIES_PER_MINUTE and _in_window(situation) > 1
    evidence = [_since(situation, "num_alloc_retries", counters.num_alloc_retries), _levels(situation)]
    if often:
        evidence.append(f"In the last half minute it happened at a rate of {per_minute:.0f} a minute.")
    if situation.moment.ended:
        evidence.append("Then the process ended; an allocation that fails after its retry raises OutOfMemoryError.")
    full = f"The device was full {_times(counters.num_alloc_retries)}"
    if _was_full_of_cache(situation):
        full += f", although tensors never took more than {format_bytes(counters.peak_allocated_bytes)}"
    return Finding(
        weight=Weight.PROBLEM if often else Weight.ADVICE,
        title=f"{full}: PyTorch returned its cache and tried again.",
        evidence=tuple(evidence),
        remedy="" if situation.moment.ended else _remedy_for_retries(situation),
    )


def _remedy_for_retries(situation: Situation) -> str:
    if not _was_full_of_cache(situation):
        return LESS_AT_ONCE
    greeting = situation.moment.greeting
    return OTHER_SIZES.format(setting=setting(greeting), caution=caution(greeting))


def _was_full_of_cache(situation: Situation) -> bool:
    """Whether tensors never needed most of the peak of reserved memory, and segments are not expandable."""
    counters, layout = situation.device.statistics, situation.device.layout
    is_expandable = layout is not None and layout.settings is not None and layout.settings.is_expandable
    return not is_expandable and counters.peak_allocated_bytes < NEEDED_SHARE * counters.peak_reserved_bytes


def room(situation: Situation) -> Finding | None:
    """The largest allocation that would succeed."""
    largest, total = situation.device.room, value_of(situation.device.driver.device_total_bytes)
    if largest is None or not total or situation.moment.ended or _is_the_failure(situation):
        return None
    now, later = format_bytes(largest.now_bytes), format_bytes(largest.after_release_bytes)
    evidence = (f"{now} fits at once; for more, PyTorch first returns its cache to the driver.",)
    return Finding(
        weight=Weight.FACT,
        title=f"The largest tensor that fits now is {later}.",
        evidence=evidence if largest.after_release_bytes > largest.now_bytes else (),
        bytes=largest.after_release_bytes,
    )


def _is_the_failure(situation: Situation) -> bool:
    """Whether the moment is that of an out-of-memory error here, about which `explain.failure` says more."""
    failure = situation.moment.failure
    return failure is not None and failure.device == situation.device.index


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _since(situation: Situation, counter: str, count: int) -> str:
    """A sentence on when a counter rose: before gputui attached, and from when to when since then."""
    if situation.moment.file:
        where = "The recorded trace has it" if situation.moment.traces else "Until the error it happened"
        return f"{where} {_times(count)}."
    first, rises = situation.counters.first, situation.counters.rises(counter)
    earlier = getattr(first.statistics, counter) if first else count
    seen = count - earlier
    if seen < 0:
        return f"It has happened {_times(count)} since the program reset PyTorch's accumulated statistics."
    attached = f"before gputui attached at {format_clock(first.time if first else situation.moment.time)}"
    if not rises:
        return f"It happened {attached}." if count == 1 else f"All {count:,} times were {attached}."
    when = (
        f"at {format_clock(rises[0])}"
        if rises[0] == rises[1]
        else f"from {format_clock(rises[0])} to {format_clock(rises[1])}"
    )
    return f"{_times(seen).capitalize()} {when}" + (f", and {_times(earlier)} {attached}." if earlier else ".")


def _levels(situation: Situation) -> str:
    counters = situation.device.statistics
    peak = format_bytes(counters.peak_reserved_bytes)
    return (
        f"{format_bytes(counters.reserved_bytes)} is reserved (peak {peak}), {format_bytes(counters.allocated_bytes)}"
        f" allocated (peak {format_bytes(counters.peak_allocated_bytes)})."
    )


def _per_minute(situation: Situation) -> float:
    window = situation.window
    span_s = window[-1].time - window[0].time
    return 60 * _in_window(situation) / span_s if span_s else 0.0


def _in_window(situation: Situation) -> int:
    """How many retries there were in the last half minute."""
    window = situation.window
    return window[-1].statistics.num_alloc_retries - window[0].statistics.num_alloc_retries

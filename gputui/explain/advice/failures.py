"""Allocations that failed or were retried, since when, and the largest one that would succeed now."""

from __future__ import annotations

from itertools import pairwise

from gputui.explain.advice.situation import Situation, clock
from gputui.explain.advice.thresholds import RETRIES_PER_MINUTE, TIGHT_SHARE
from gputui.model.finding import Finding, Weight
from gputui.model.reading import value_of
from gputui.units import format_bytes


def out_of_memory(situation: Situation) -> Finding | None:
    """An allocation failed."""
    counters = situation.device.statistics
    if not counters.num_ooms:
        return None
    evidence = [_since(situation, "num_ooms", counters.num_ooms), _levels(situation)]
    room = situation.device.room
    if room is not None:
        evidence.append(f"The largest tensor that fits now is {format_bytes(room.after_release_bytes)}.")
    return Finding(
        kind="out_of_memory",
        weight=Weight.PROBLEM,
        title=f"Out of memory: an allocation failed {_times(counters.num_ooms)}.",
        evidence=tuple(evidence),
        remedy="The findings below show what held the memory at the last look: make the largest of it smaller.",
    )


def retries(situation: Situation) -> Finding | None:
    """The allocator had to release its cache before the driver could serve a request."""
    counters = situation.device.statistics
    if not counters.num_alloc_retries:
        return None
    per_minute = _per_minute(situation)
    often = per_minute >= RETRIES_PER_MINUTE
    evidence = [_since(situation, "num_alloc_retries", counters.num_alloc_retries), _levels(situation)]
    if often:
        evidence.append(f"At present {per_minute:.0f} a minute, and each one synchronises the device.")
    if situation.moment.ended:
        evidence.append("Then the process ended: an allocation that fails even after a retry raises OutOfMemoryError.")
    return Finding(
        kind="retries",
        weight=Weight.PROBLEM if often else Weight.ADVICE,
        title=f"The device was full {_times(counters.num_alloc_retries)}: PyTorch released its cache and tried again.",
        evidence=tuple(evidence),
        remedy="Every retry stalls the training, and the next may fail: leave some room (a smaller batch,"
        " activation checkpointing, fewer other processes on the device).",
    )


def room(situation: Situation) -> Finding | None:
    """The largest allocation that would succeed."""
    largest, total = situation.device.room, value_of(situation.device.driver.device_total_bytes)
    if largest is None or not total:
        return None
    is_tight = largest.after_release_bytes < TIGHT_SHARE * total
    now, later = format_bytes(largest.now_bytes), format_bytes(largest.after_release_bytes)
    evidence = [f"A larger one would fail with: {largest.next_error}"]
    if largest.after_release_bytes > largest.now_bytes:
        evidence.insert(0, f"{now} as it is, {later} after PyTorch has released its cache.")
    return Finding(
        kind="room",
        weight=Weight.PROBLEM if is_tight else Weight.FACT,
        title=f"The largest tensor that fits now is {later}.",
        evidence=tuple(evidence),
        bytes=largest.after_release_bytes,
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _since(situation: Situation, counter: str, count: int) -> str:
    """When a counter rose, as far as it was seen."""
    values = [(point.time, getattr(point.statistics, counter)) for point in situation.counters]
    rises = [at for (_, before), (at, after) in pairwise(values) if after > before]
    seen = count - values[0][1]
    start = clock(values[0][0])
    if not rises:
        return f"{counter} is {count:,}: all of it before {start}, when gputui attached."
    when = f"at {clock(rises[0])}" if rises[0] == rises[-1] else f"from {clock(rises[0])} to {clock(rises[-1])}"
    return f"{counter} is {count:,}: {seen:,} seen {when}, {values[0][1]:,} before {start}, when gputui attached."


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
    risen = window[-1].statistics.num_alloc_retries - window[0].statistics.num_alloc_retries
    return 60 * risen / span_s if span_s else 0.0

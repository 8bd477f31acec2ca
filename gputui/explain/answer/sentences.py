"""The sentences of a verdict: who holds most, what grows, since when nothing moves, and what was held near the peak."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.explain.advice.held.holders import Holder
from gputui.explain.advice.leaks.counters import Growth, rate_words, time_left_words
from gputui.explain.answer.estimates import LookHolders
from gputui.explain.memory.need import Need
from gputui.explain.owners.names import listed
from gputui.model.attached.analysis import Finding
from gputui.model.attached.counters import Counters
from gputui.model.attached.moment import DeviceMoment, TargetMoment
from gputui.model.attached.tensors import NAMELESS
from gputui.model.reading import Absent
from gputui.model.weight import Weight
from gputui.units import format_bytes, format_clock

CACHE, OUTSIDE = "cache", "outside"
"""The kinds (first part of the key) of the holders of PyTorch's cache and of memory outside PyTorch."""
PEAK_SHARE = 0.05
"""Of the peak: a smaller distance from the peak is not worth words."""
PEAK_HOLDERS = 2
LEAST_SHARE = 0.005
"""A smaller share would be rounded to 0 %."""
STILL_S = 60.0
STILL_AFTER_STEPS_S, STILL_STEPS = 15.0, 5.0
"""Where steps are known, nothing must move for this long and for the time of this many steps."""


def most_words(
    holder: Holder, suspect: Holder | None, whole_bytes: int, whole: str, *, is_most: bool, was: bool
) -> str:
    """Who holds most. `suspect` most likely holds it if `holder` is memory without a name.

    `is_most`: the holder has at least half of what PyTorch has reserved. `was`: the process has ended.
    """
    most = "Most of PyTorch's memory" if is_most else "The most PyTorch memory"
    verb = "was" if was else "is"
    if holder.key[0] == OUTSIDE:
        start = f"Most memory {verb} {holder.label}"
    elif holder.key[0] == CACHE:
        start = f"{most} {verb} {holder.label}"
    else:
        likely = f", most likely {suspect.label}" if suspect and holder.key[0] in NAMELESS else ""
        start = f"{most} {verb} held by {holder.label}{likely}"
    return f"{start}: {format_bytes(holder.bytes)}, {share_words(holder.bytes / whole_bytes)} {whole}."


def share_words(share: float) -> str:
    """A share between 0 and 1 as a percentage: "33%", "<1%"."""
    return f"{share:.0%}" if share >= LEAST_SHARE else "<1%"


def growth_words(device: DeviceMoment, growth: Growth | None, named: str, largest: Holder) -> str:
    """What grows by the counters, how fast, and when the device will be full; "" without growth."""
    if growth is None:
        return ""
    subject = "It" if named == largest.name else named or "Memory"
    words = f"{subject} grows by {rate_words(growth.bytes_per_s)}"
    free = device.driver.device_free_bytes
    if isinstance(free, Absent):
        return f"{words}."
    spare = free + device.statistics.reserved_bytes - device.statistics.allocated_bytes
    left = time_left_words(growth.full_in_s(spare))
    return f"{words} and fills the device in {left}." if left else f"{words}."


def leak_words(leak: Finding) -> str:
    """What looks have found to grow, for growth that the counters do not show yet."""
    if leak.weight is not Weight.PROBLEM or not leak.owners:
        return ""
    return f"{leak.owners[0]} grows: {format_bytes(leak.bytes)} by now."


def still_words(moment: TargetMoment, counters: Counters | None, need: Need | None) -> str:
    """Since when the program has neither allocated nor freed memory; "" if that is not long ago."""
    first = counters.first if counters else None
    if counters is None or first is None:
        return ""
    since = (counters.rises("generation") or (0.0, first.time))[1]
    least_s = max(STILL_AFTER_STEPS_S, STILL_STEPS * need.step_s) if need and need.step_s else STILL_S
    return f" Nothing has moved since {format_clock(since)}." if moment.time - since >= least_s else ""


def peak_words(device: DeviceMoment, looks: Sequence[LookHolders]) -> str:
    """What is known of the peak without a recorded step: the largest look, and how far below the peak it was; or ""."""
    peak = device.statistics.peak_allocated_bytes
    sizes = [(sum(holder.bytes for holder in holders), time, holders) for time, holders in looks]
    largest, time, holders = max(sizes, key=lambda size: size[0], default=(0, 0.0, ()))
    if not largest or peak - device.statistics.allocated_bytes < PEAK_SHARE * peak:
        return ""
    names = listed(f"{holder.name} ({format_bytes(holder.bytes)})" for holder in holders[:PEAK_HOLDERS])
    is_most = 2 * sum(holder.bytes for holder in holders[:PEAK_HOLDERS]) >= largest
    below = peak - largest
    distance = f", {format_bytes(below)} below the peak" if below > PEAK_SHARE * peak else ""
    return (
        f"Peak of allocated memory: {format_bytes(peak)}. The largest look so far, at {format_clock(time)}, held"
        f" {format_bytes(largest)}{distance}: {'most of it' if is_most else 'the largest parts'} {names}."
    )

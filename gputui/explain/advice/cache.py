"""The cache: what `empty_cache()` would return, and calls to it that come too often."""

from __future__ import annotations

from itertools import pairwise

from gputui.explain.advice.names import counted, listed
from gputui.explain.advice.situation import Counted, Situation
from gputui.explain.advice.thresholds import CHURN_PER_S, CHURN_SHARE, RELEASABLE_BYTES, STUCK_BYTES, WINDOW_POINTS
from gputui.model.analysis import Composition
from gputui.model.finding import Finding, Weight
from gputui.model.moment import DeviceLayout
from gputui.units import format_bytes


def release(situation: Situation) -> Finding | None:
    """What `empty_cache()` would return now."""
    layout = situation.device.layout
    if layout is None:
        return None
    parts = layout.release.composition
    gone = [segment for segment in layout.release.segments if segment.releasable_bytes]
    if parts.releasable_bytes < RELEASABLE_BYTES:
        return _nothing(parts)
    left = format_bytes(parts.reserved_bytes - parts.releasable_bytes)
    evidence = (
        f"{counted(len(gone), 'segment')} of {len(layout.release.segments):,} would be released, wholly or in part;"
        f" reserved memory would fall from {format_bytes(parts.reserved_bytes)} to {left}.{_rest(parts)}"
    )
    return Finding(
        kind="release",
        weight=Weight.FACT,
        title=f"empty_cache() would return {format_bytes(parts.releasable_bytes)} now.",
        evidence=(evidence,),
        remedy="That helps other processes on the device only: PyTorch reuses its cache without it.",
        bytes=parts.releasable_bytes,
        screen="map",
        addresses=tuple(s.segment.address for s in sorted(gone, key=lambda s: -s.releasable_bytes)),
    )


def _nothing(parts: Composition) -> Finding | None:
    kept = parts.stuck_bytes + parts.private_pool_free_bytes
    if kept < STUCK_BYTES:
        return None
    return Finding(
        kind="release",
        weight=Weight.FACT,
        title=f"empty_cache() would return nothing, although {format_bytes(kept)} of the reserved memory is free.",
        evidence=(_rest(parts).strip(),),
        bytes=kept,
        screen="map",
    )


def _rest(parts: Composition) -> str:
    kept = ((parts.stuck_bytes, "stuck beside live blocks"), (parts.private_pool_free_bytes, "kept by private pools"))
    parts_kept = [f"{format_bytes(count)} {why}" for count, why in kept if count]
    return f" Not returned: {listed(parts_kept)}." if parts_kept else ""


def churn(situation: Situation) -> Finding | None:
    """The cache goes back to the driver and is allocated again all the time, although no allocation failed."""
    window = situation.window
    span_s = window[-1].time - window[0].time
    if len(window) < WINDOW_POINTS or _is_retrying(window) or _collects(situation.device.layout):
        return None
    taken = _risen(window, "num_device_alloc")
    freed = _risen(window, "num_device_free")
    lulls_s = sum(
        other.time - one.time
        for one, other in pairwise(window)
        if one.statistics.num_device_free == other.statistics.num_device_free
    )
    is_habit = lulls_s <= (1 - CHURN_SHARE) * span_s
    if not is_habit or min(taken, freed) < CHURN_PER_S * span_s:
        return None
    evidence = (
        f"In {span_s:.0f} s num_device_alloc rose by {taken:,} and num_device_free by {freed:,}, although no allocation"
        f" failed (num_alloc_retries stayed at {window[-1].statistics.num_alloc_retries:,}): the program releases"
        " memory that it needs again at once."
    )
    rates = f"{taken / span_s:.0f} device allocations and {freed / span_s:.0f} frees a second"
    return Finding(
        kind="churn",
        weight=Weight.PROBLEM,
        title=f"The cache is emptied all the time: {rates}.",
        evidence=(evidence,),
        remedy="Take torch.cuda.empty_cache() out of the training loop: each call waits for the device, and the next"
        " step pays for new allocations.",
    )


def _is_retrying(window: tuple[Counted, ...]) -> bool:
    return _risen(window, "num_alloc_retries") > 0


def _collects(layout: DeviceLayout | None) -> bool:
    """Whether the allocator releases memory by itself: garbage_collection_threshold is set."""
    settings = layout.settings if layout else None
    value = dict(settings.values).get("garbage_collection_threshold", "") if settings else ""
    return value.strip("0.") != ""


def _risen(window: tuple[Counted, ...], counter: str) -> int:
    first, last = (int(getattr(point.statistics, counter)) for point in (window[0], window[-1]))
    return last - first

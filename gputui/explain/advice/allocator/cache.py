"""PyTorch's cache: what `empty_cache()` would return, and programs that call it too often."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby, pairwise

from gputui.explain.advice.situation import Situation
from gputui.explain.advice.thresholds import CHURN_LULL_SHARE, CHURN_PER_S, RELEASABLE_BYTES, STUCK_BYTES, WINDOW_POINTS
from gputui.explain.memory.need import need_of
from gputui.explain.memory.release import forecast
from gputui.explain.owners.names import counted, listed
from gputui.model.attached.analysis import Finding, Release
from gputui.model.attached.counters import Counted
from gputui.model.attached.moment import DeviceLayout
from gputui.model.weight import Weight
from gputui.units import format_bytes

ONLY_FOR_OTHERS = "That helps only other processes on the device: PyTorch itself reuses its cache."
FAILED_CAPTURE = "It returns less, or nothing, if the capture of a CUDA graph has failed in this program."
AFTER_A_FAILED_CAPTURE = (
    "If a capture has failed, delete its torch.cuda.CUDAGraph. Before PyTorch 2.13 that does not help: PyTorch then"
    " keeps its cache until the process ends, even when an allocation fails for lack of it."
)


def release(situation: Situation) -> Finding | None:
    """What `empty_cache()` would return now, or would have returned before the process ended."""
    layout = situation.device.layout
    if layout is None:
        return None
    parts = layout.release.composition
    need = need_of(situation.device)
    gone = [segment for segment in layout.release.segments if segment.releasable_bytes]
    has_ended = situation.moment.ended is not None
    would = "would have returned" if has_ended else "would return"
    is_sure = layout.release.least_bytes == layout.release.most_bytes
    if layout.release.most_bytes < RELEASABLE_BYTES:
        return _nothing(layout.release, would)
    left = f"{format_bytes(parts.reserved_bytes - parts.releasable_bytes)}.{_rest(layout.release)}"
    missing = max(0, need.highest_bytes - layout.statistics.allocated_bytes) if need and not has_ended else 0
    taken_back = min(parts.releasable_bytes, missing)
    taker = "the next step takes" if need and need.step_s else "the program takes"
    back = f", and {taker} {format_bytes(taken_back)} of it back" if taken_back >= RELEASABLE_BYTES else ""
    doubt = "" if is_sure else ": the capture of a CUDA graph may have failed"
    evidence = (
        f"From {len(gone):,} of {counted(len(layout.release.segments), 'segment')}; reserved memory would"
        f" {'have fallen' if has_ended else 'fall'} from {format_bytes(parts.reserved_bytes)} to {left}"
    )
    return Finding(
        weight=Weight.FACT if is_sure else Weight.ADVICE,
        title=f"empty_cache() {would} {forecast(layout.release)}{'' if has_ended else ' now'}{back or doubt}.",
        evidence=(evidence, *(() if is_sure else (FAILED_CAPTURE,))),
        remedy="" if has_ended else ONLY_FOR_OTHERS if is_sure else AFTER_A_FAILED_CAPTURE,
        bytes=parts.releasable_bytes,
        screen="map",
        addresses=tuple(s.segment.address for s in sorted(gone, key=lambda s: -s.releasable_bytes)),
    )


def failed_capture(situation: Situation) -> Finding | None:
    """Free memory in pools that a failed capture most likely keeps: `empty_cache()` may return none of it."""
    layout = situation.device.layout
    doubtful = layout.release.most_bytes - layout.release.least_bytes if layout else 0
    found = release(situation) if doubtful >= STUCK_BYTES else None
    if found is None:
        return None
    title = f"A failed capture of a CUDA graph most likely keeps {format_bytes(doubtful)} that nothing uses"
    return replace(
        found,
        weight=Weight.ADVICE,
        title=f"{title}: empty_cache() may return none of it.",
        bytes=doubtful,
    )


def _nothing(predicted: Release, would: str) -> Finding | None:
    parts = predicted.composition
    kept = parts.stuck_bytes + parts.private_pool_free_bytes
    if kept < STUCK_BYTES:
        return None
    return Finding(
        weight=Weight.FACT,
        title=f"empty_cache() {would} nothing, although {format_bytes(kept)} of the reserved memory is free.",
        evidence=(_rest(predicted).strip(),),
        bytes=kept,
        screen="map",
    )


def _rest(predicted: Release) -> str:
    parts, stuck_bytes = predicted.composition, predicted.stuck_bytes
    kept = (
        (stuck_bytes, "stuck beside live blocks"),
        (parts.stuck_bytes - stuck_bytes, "kept by a capture"),
        (parts.private_pool_free_bytes, "kept by private pools"),
    )
    parts_kept = [f"{format_bytes(count)} {why}" for count, why in kept if count]
    return f" Not returned: {listed(parts_kept)}." if parts_kept else ""


def churn(situation: Situation) -> Finding | None:
    """The cache is returned to the driver and allocated again all the time, although no allocation failed."""
    window = situation.window
    span_s = window[-1].time - window[0].time
    if len(window) < WINDOW_POINTS or _is_retrying(window) or _collects(situation.device.layout):
        return None
    taken = _risen(window, "num_device_alloc")
    freed = _risen(window, "num_device_free")
    is_habit = _longest_lull_s(window) <= CHURN_LULL_SHARE * span_s
    if not is_habit or min(taken, freed) < CHURN_PER_S * span_s:
        return None
    evidence = (
        f"In {span_s:.0f} s PyTorch returned {counted(freed, 'segment')} and allocated {taken:,}, although the device"
        " was not full (num_alloc_retries did not rise): the program needs again what it has just returned."
    )
    inventory = situation.moment.inventory
    callers = inventory.empties if inventory else ()
    rates = f"{freed / span_s:.0f} segments a second go back to the driver, and {taken / span_s:.0f} are allocated"
    return Finding(
        weight=Weight.PROBLEM,
        title=f"The cache is emptied all the time: {rates}.",
        evidence=(evidence, *([f"empty_cache() is called in {listed(callers)}."] if callers else [])),
        remedy="Take torch.cuda.empty_cache() out of the training loop: each call waits for the device, and the next"
        " step pays for new allocations.",
    )


def _longest_lull_s(window: tuple[Counted, ...]) -> float:
    """The longest time in which reading after reading showed no freed segment; short even if steps take seconds."""
    pairs = groupby(
        pairwise(window), lambda pair: pair[0].statistics.num_device_free == pair[1].statistics.num_device_free
    )
    lulls = (list(run) for is_lull, run in pairs if is_lull)
    return max((lull[-1][1].time - lull[0][0].time for lull in lulls), default=0.0)


def _is_retrying(window: tuple[Counted, ...]) -> bool:
    return _risen(window, "num_alloc_retries") > 0


def _collects(layout: DeviceLayout | None) -> bool:
    """Whether the allocator itself returns cached memory, as garbage_collection_threshold is set."""
    settings = layout.settings if layout else None
    value = dict(settings.values).get("garbage_collection_threshold", "") if settings else ""
    return value.strip("0.") != ""


def _risen(window: tuple[Counted, ...], counter: str) -> int:
    first, last = (int(getattr(point.statistics, counter)) for point in (window[0], window[-1]))
    return last - first

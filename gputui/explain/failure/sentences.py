"""An out-of-memory error in sentences: what was asked for, where, and what was free."""

from __future__ import annotations

from gputui.model.attached.failure import Failure, FailureAnalysis, Phase
from gputui.units import format_bytes

PINNED = "pinned host memory"
"""The `Failure.asked_by` of a request for page-locked host memory."""
UNKNOWN = "CUDA"
"""The `Failure.asked_by` where only CUDA's own error is known."""
REQUESTS = {
    PINNED: "a request{size} for pinned host memory",
    UNKNOWN: "a CUDA call that needs memory",
    "a CUDA library": "a request{size} of a CUDA library",
}
"""The subject of the first sentence, by `Failure.asked_by`."""
AFTERWARDS = (
    "PyTorch's allocator did not make this request, so gputui looked after the error had ended the program: temporary"
    " tensors of the failing line were gone by then."
)


def headline(failure: Failure, analysis: FailureAnalysis) -> str:
    """How much was requested, in which part of the step, and how much was missing."""
    where = f" in the {analysis.phase.value}" if analysis.phase is not Phase.UNKNOWN else ""
    if analysis.phase is Phase.EVALUATION:
        where = " in an evaluation"
    if analysis.server is not None:
        where = f" {analysis.server.words}"
    if failure.asked_by:
        return f"Out of memory: {asked_words(failure)}{where}."
    asked = f"Out of memory: {format_bytes(failure.requested_bytes)} asked for{where}"
    if not analysis.short_bytes:
        return f"{asked}, and refused although the device had as much free."
    return f"{asked}, {format_bytes(analysis.short_bytes)} more than was free."


def asked_words(failure: Failure) -> str:
    """Who requested what, where it was not PyTorch's allocator."""
    size = f" of {format_bytes(failure.requested_bytes)}" if failure.requested_bytes else ""
    what = REQUESTS.get(failure.asked_by, "a request{size} of {asked_by}")
    return f"{what.format(size=size, asked_by=failure.asked_by)} failed"


def place_sentences(failure: Failure, analysis: FailureAnalysis) -> tuple[str, ...]:
    """Where in the program the request was made, and in which circumstances."""
    sentences = []
    callers = ", ".join(site.words for site in analysis.callers)
    led = f", called from {callers}" if callers else ""
    if failure.backward_node:
        sentences.append(f"In backward of {failure.backward_node}, in the thread {failure.thread}.")
    if analysis.place is not None:
        start = "The pass was started" if failure.backward_node else "Requested"
        sentences.append(f"{start} at {analysis.place.words}{led}.")
    if failure.thread not in ("", "MainThread") and not failure.backward_node:
        sentences.append(f"In the thread {failure.thread}.")
    if failure.is_capturing:
        sentences.append("While a CUDA graph was being captured: nothing could be released for it.")
    if failure.asked_by:
        sentences.append(AFTERWARDS)
    if failure.number > 1:
        sentences.append(f"It was error {failure.number} of this program.")
    return tuple(sentences)


def room_sentences(failure: Failure, analysis: FailureAnalysis) -> tuple[str, ...]:
    """What was free: on the device, in PyTorch's cache, in the largest piece."""
    name = f" ({failure.device_name})" if failure.device_name else ""
    total, free = failure.device_total_bytes, format_bytes(failure.device_free_bytes)
    reserved = format_bytes(analysis.reserved_bytes)
    device = (
        f"Device {failure.device}{name} has {format_bytes(total)}: {free} free, {reserved} reserved by PyTorch,"
        f" {format_bytes(analysis.outside_bytes)} held by the CUDA context, libraries and other processes."
        if total
        else f"Device {failure.device} had {free} free, and PyTorch had reserved {reserved}."
    )
    cache = (
        f"PyTorch's cache has {format_bytes(analysis.cached_bytes)} free, in pieces of at most"
        f" {format_bytes(analysis.largest_piece_bytes)}."
        if analysis.cached_bytes
        else "PyTorch's cache is empty."
    )
    if failure.allowed_bytes is None:
        return device, cache
    allowed = format_bytes(failure.allowed_bytes)
    limit = f"The process may reserve {allowed} (set_per_process_memory_fraction), of which"
    return device, f"{limit} {format_bytes(analysis.usable_free_bytes)} was left.", cache

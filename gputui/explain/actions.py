"""The outcome of an action in the program, compared with what was predicted."""

from __future__ import annotations

from collections.abc import Iterable

from gputui.explain.release import predict_device
from gputui.model.allocator import AllocatorMap
from gputui.model.analysis import Outcome
from gputui.model.target import ActionCounters, ActionName, ActionResult
from gputui.units import format_bytes

CALLS = {
    ActionName.COLLECT: "gc.collect()",
    ActionName.EMPTY_CACHE: "torch.cuda.empty_cache()",
    ActionName.HISTORY_ON: "Memory history on",
    ActionName.HISTORY_OFF: "Memory history off",
}
"""How screens call an action."""

_PROGRAM_WENT_ON = (
    "They differ because other threads of the program allocate and free while the driver takes memory back."
)
_NO_MAP = "no prediction, because there is no map of this allocator"


def outcome_of(result: ActionResult) -> Outcome:
    """What was predicted, what happened and how long it took, in sentences."""
    call = CALLS[result.name]
    if result.reason:
        return Outcome(result.time, result.name, (f"{call} was not run.", result.reason), is_as_predicted=False)
    sentences, is_as_predicted = _SENTENCES[result.name](result)
    duration = f"It took {_milliseconds(result.took_s)}."
    return Outcome(result.time, result.name, (f"{call}: {sentences[0]}", *sentences[1:], duration), is_as_predicted)


def predicted_bytes(layout: AllocatorMap, device: int) -> int:
    """How much `empty_cache()` is predicted to return on a device."""
    return predict_device(layout, device).releasable_bytes


def returned_bytes(device: ActionCounters) -> int:
    """How much went back to the driver; below 0 where the program reserved more meanwhile."""
    return device.reserved_before_bytes - device.reserved_after_bytes


Summary = tuple[tuple[str, ...], bool]
"""Sentences, and whether it went as predicted."""


def _emptied(result: ActionResult) -> Summary:
    if result.map is None:
        returned = _listed(f"{format_bytes(returned_bytes(d))} on device {d.device}" for d in result.devices)
        return (f"{_NO_MAP}; returned: {returned or 'nothing'}.",), False
    pairs = [(d.device, predicted_bytes(result.map, d.device), returned_bytes(d)) for d in result.devices]
    comparisons = [
        f"{format_bytes(predicted)} predicted, {_exactly(returned, predicted)} returned on device {device}"
        for device, predicted, returned in pairs
        if predicted or returned
    ]
    is_as_predicted = all(predicted == returned for _, predicted, returned in pairs)
    first = f"{_listed(comparisons) or 'nothing predicted, nothing returned'}."
    return ((first,) if is_as_predicted else (first, _PROGRAM_WENT_ON)), is_as_predicted


def _exactly(returned: int, predicted: int) -> str:
    """Bytes with the difference behind them where rounding would hide that it is not as predicted."""
    if returned == predicted or format_bytes(returned) != format_bytes(predicted):
        return format_bytes(returned) if returned >= 0 else f"-{format_bytes(-returned)}"
    return f"{format_bytes(returned)} ({returned - predicted:+,} B)"


def _collected(result: ActionResult) -> Summary:
    freed = [
        f"{format_bytes(d.allocated_before_bytes - d.allocated_after_bytes)} of tensors freed on device {d.device}"
        for d in result.devices
        if d.allocated_before_bytes > d.allocated_after_bytes
    ]
    objects = f"{result.collected or 0:,} object{'' if result.collected == 1 else 's'} collected"
    first = f"what it frees cannot be predicted; {objects}, {_listed(freed) or 'no tensor freed'}."
    second = "PyTorch keeps that memory in its cache." if freed else ""
    return tuple(filter(None, (first, second))), True


def _history_on(_result: ActionResult) -> Summary:
    return ("blocks allocated from now on record the line that asked for them; older ones do not.",), True


def _history_off(_result: ActionResult) -> Summary:
    return ("blocks allocated from now on record no line; those that have one keep it.",), True


_SENTENCES = {
    ActionName.COLLECT: _collected,
    ActionName.EMPTY_CACHE: _emptied,
    ActionName.HISTORY_ON: _history_on,
    ActionName.HISTORY_OFF: _history_off,
}


def _listed(parts: Iterable[str]) -> str:
    return "; ".join(parts)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"

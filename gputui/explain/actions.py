"""What came of an action in the program, against what was to be expected of it."""

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
"""An action in the words in which a screen speaks of it."""

_PROGRAM_WENT_ON = (
    "The two differ: while the driver takes memory back, other threads of the program go on allocating and freeing."
)
_NO_MAP = "nothing could be predicted, for there is no map of this allocator"


def outcome_of(result: ActionResult) -> Outcome:
    """What was predicted, what happened and how long it took, in sentences."""
    call = CALLS[result.name]
    if result.reason:
        return Outcome(result.time, result.name, (f"{call} was not done.", result.reason), is_as_predicted=False)
    sentences, is_as_predicted = _SENTENCES[result.name](result)
    took = f"It took {_milliseconds(result.took_s)}."
    return Outcome(result.time, result.name, (f"{call}: {sentences[0]}", *sentences[1:], took), is_as_predicted)


def predicted_bytes(layout: AllocatorMap, device: int) -> int:
    """What `empty_cache()` is expected to give back on a device."""
    return predict_device(layout, device).releasable_bytes


def given_back_bytes(device: ActionCounters) -> int:
    """What went back to the driver; below 0 where the program took more meanwhile."""
    return device.reserved_before_bytes - device.reserved_after_bytes


Told = tuple[tuple[str, ...], bool]


def _emptied(result: ActionResult) -> Told:
    if result.map is None:
        given = _listed(f"{format_bytes(given_back_bytes(each))} on device {each.device}" for each in result.devices)
        return (f"{_NO_MAP}; given back: {given or 'nothing'}.",), False
    pairs = [(each, predicted_bytes(result.map, each.device), given_back_bytes(each)) for each in result.devices]
    told = [
        f"{format_bytes(predicted)} predicted, {_exactly(given, predicted)} given back on device {device.device}"
        for device, predicted, given in pairs
        if predicted or given
    ]
    is_as_predicted = all(predicted == given for _, predicted, given in pairs)
    first = f"{_listed(told) or 'nothing predicted, nothing given back'}."
    return ((first,) if is_as_predicted else (first, _PROGRAM_WENT_ON)), is_as_predicted


def _exactly(given: int, predicted: int) -> str:
    """With all digits where the rounded ones would hide that it is not as predicted."""
    if given == predicted or format_bytes(given) != format_bytes(predicted):
        return format_bytes(given) if given >= 0 else f"-{format_bytes(-given)}"
    return f"{format_bytes(given)} ({given - predicted:+,} B)"


def _collected(result: ActionResult) -> Told:
    freed = [
        f"{format_bytes(each.allocated_before_bytes - each.allocated_after_bytes)} of tensors freed on device"
        f" {each.device}"
        for each in result.devices
        if each.allocated_before_bytes > each.allocated_after_bytes
    ]
    objects = f"{result.collected or 0:,} object{'' if result.collected == 1 else 's'} collected"
    first = f"what it frees cannot be told beforehand; {objects}, {_listed(freed) or 'no tensor freed'}."
    then = "PyTorch keeps that memory in its cache." if freed else ""
    return tuple(filter(None, (first, then))), True


def _history_begun(_result: ActionResult) -> Told:
    return ("blocks made from now on carry the line that asked for them; those from before do not.",), True


def _history_ended(_result: ActionResult) -> Told:
    return ("blocks made from now on carry no line; those that have one keep it.",), True


_SENTENCES = {
    ActionName.COLLECT: _collected,
    ActionName.EMPTY_CACHE: _emptied,
    ActionName.HISTORY_ON: _history_begun,
    ActionName.HISTORY_OFF: _history_ended,
}


def _listed(parts: Iterable[str]) -> str:
    return "; ".join(parts)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"

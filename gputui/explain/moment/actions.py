"""The actions that can be run in an attached program, each declared once: its question, and words for its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gputui.explain.memory.collection import Collection, collection_of, why_not_known
from gputui.explain.memory.release import forecast, predict_device
from gputui.model.attached.allocator import AllocatorMap
from gputui.model.attached.analysis import Outcome
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.target import ActionCounters, ActionName, ActionResult, Garbage, Recorder
from gputui.units import format_bytes, format_duration

_PROGRAM_WENT_ON = (
    "They differ because other threads of the program allocate and free while the driver takes memory back."
)
_MORE_OR_LESS = (
    "They differ because the program has made or freed tensors since the look, or because finalizers keep or free some."
)
_NO_MAP = "no prediction, because this allocator has no map"

Known = tuple[Garbage | None, AllocatorMap | None]
"""What `gc.collect()` would free, and the newest map, as known right before an action ran."""
ResultWords = tuple[tuple[str, ...], bool]
"""The sentences about a result, and whether the result is as predicted."""


@dataclass(frozen=True, slots=True)
class Action:
    """What a viewer can have the probe do; the probe has its own table of the same names (`probe/viewers/actions.py`).

    `call` is its name on the screens; `letter` and `title` stand in the menu. `question` asks about a PID ("{}"),
    `verb` is on the button, `warning` tells its cost, and `predict` gives a line for each device. `describe` puts a
    result into words. An action is offered while one of `recorders` records the memory history; `recorder_after` does
    so afterwards (None: the same).
    """

    name: ActionName
    call: str
    letter: str
    title: str
    question: str
    verb: str
    warning: str
    describe: Callable[[ActionResult, Known], ResultWords]
    predict: Callable[[TargetMoment], list[str]] = lambda _moment: []
    recorders: frozenset[Recorder] = frozenset(Recorder)
    recorder_after: Recorder | None = None


def outcome_of(result: ActionResult, known: Known = (None, None)) -> Outcome:
    """What was predicted, what happened and how long it took, in sentences."""
    action = ACTIONS[result.name]
    if result.reason:
        return Outcome(result.time, result.name, (f"{action.call} was not run.", result.reason), is_as_predicted=False)
    sentences, is_as_predicted = action.describe(result, known)
    took = f"It took {_milliseconds(result.took_s)}."
    return Outcome(result.time, result.name, (f"{action.call}: {sentences[0]}", *sentences[1:], took), is_as_predicted)


def recorder_after(name: ActionName, recorder: Recorder) -> Recorder:
    """Who records the memory history once this action is done, if `recorder` did before."""
    after = ACTIONS[name].recorder_after
    return recorder if after is None else after


def predict_release(moment: TargetMoment) -> list[str]:
    """A line for each device: what `empty_cache()` would return, and how old the look is that tells it."""
    age = format_duration(max(0.0, moment.time - moment.look_time))
    lines = [
        f"device {device.number}: {forecast(device.layout.release)} predicted, of"
        f" {format_bytes(device.statistics.reserved_bytes)} reserved (look {age} ago)"
        for device in moment.devices
        if device.layout
    ]
    return lines or ["no prediction: the allocator's map has not been looked at yet"]


def predict_collection(moment: TargetMoment) -> list[str]:
    """A line for each device: what `gc.collect()` would free, and how long ago that was found."""
    garbage, block_map = moment.garbage, moment.look.map if moment.look else None
    age = format_duration(max(0.0, moment.time - garbage.time)) if garbage else ""
    known = [(device.number, collection_of(garbage, block_map, device.index)) for device in moment.devices]
    lines = [f"device {number}: {found.words} (found {age} ago)" for number, found in known if found is not None]
    return lines or [why_not_known(garbage) or "no prediction: a scan (s) finds what only reference cycles keep"]


def returned_bytes(device: ActionCounters) -> int:
    """How many bytes went back to the driver; below 0 if the program reserved more meanwhile."""
    return device.reserved_before_bytes - device.reserved_after_bytes


def _emptied(result: ActionResult, _known: Known) -> ResultWords:
    if result.map is None:
        returned = _listed(f"{format_bytes(returned_bytes(d))} on device {d.device}" for d in result.devices)
        return (f"{_NO_MAP}; returned: {returned or 'nothing'}.",), False
    pairs = [(predict_device(result.map, device.device), returned_bytes(device)) for device in result.devices]
    figures = [
        f"{forecast(release)} predicted, {_exactly(returned, release.most_bytes)} returned on device {release.device}"
        for release, returned in pairs
        if release.most_bytes or returned
    ]
    is_as_predicted = all(release.least_bytes <= returned <= release.most_bytes for release, returned in pairs)
    first = f"{_listed(figures) or 'nothing predicted, nothing returned'}."
    return ((first,) if is_as_predicted else (first, _PROGRAM_WENT_ON)), is_as_predicted


def _exactly(returned: int, predicted: int) -> str:
    """`returned` in words, with the difference in bytes if rounded numbers would hide that it is not `predicted`."""
    if returned == predicted or format_bytes(returned) != format_bytes(predicted):
        return format_bytes(returned) if returned >= 0 else f"-{format_bytes(-returned)}"
    return f"{format_bytes(returned)} ({returned - predicted:+,} B)"


def _collected(result: ActionResult, known: Known) -> ResultWords:
    freed = {device.device: device.allocated_before_bytes - device.allocated_after_bytes for device in result.devices}
    predicted = {device: collection_of(*known, device) for device in freed}
    figures = [
        f"{_predicted(found)}{_exactly(freed[device], _bytes_of(found))} of tensors freed on device {device}"
        for device, found in predicted.items()
        if freed[device] > 0 or _bytes_of(found)
    ]
    objects = f"{result.collected or 0:,} object{'' if result.collected == 1 else 's'} collected"
    first = f"{objects}, {_listed(figures) or 'no tensor freed'}."
    then = "PyTorch keeps that memory in its cache." if any(came > 0 for came in freed.values()) else ""
    is_as_predicted = all(found is None or found.is_met_by(freed[device]) for device, found in predicted.items())
    return tuple(filter(None, (first, then, "" if is_as_predicted else _MORE_OR_LESS))), is_as_predicted


def _predicted(collection: Collection | None) -> str:
    return "" if collection is None else f"{format_bytes(collection.freed_bytes)} predicted, "


def _bytes_of(collection: Collection | None) -> int:
    return collection.freed_bytes if collection else 0


def _history_begun(_result: ActionResult, _known: Known) -> ResultWords:
    return ("blocks allocated from now on record the line that asked for them; earlier ones do not.",), True


def _history_ended(_result: ActionResult, _known: Known) -> ResultWords:
    return ("blocks allocated from now on record no line; those that have one keep it.",), True


def _step_recorded(_result: ActionResult, _known: Known) -> ResultWords:
    return ("recorded; the Step screen shows it.",), True


def _listed(parts: Iterable[str]) -> str:
    return "; ".join(parts)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


ACTIONS = {
    action.name: action
    for action in (
        Action(
            ActionName.COLLECT,
            "gc.collect()",
            "g",
            "gc.collect(): a full collection of Python's garbage",
            "Run gc.collect() in process {}?",
            "Collect",
            "The program's main thread stops while it runs, and runs the finalizers of what it finds.",
            _collected,
            predict_collection,
        ),
        Action(
            ActionName.EMPTY_CACHE,
            "torch.cuda.empty_cache()",
            "e",
            "torch.cuda.empty_cache(): give cached memory back to the driver",
            "Run torch.cuda.empty_cache() in process {}?",
            "Empty the cache",
            "It runs in the program's main thread and waits for work on the device. The steps after it are slower: they"
            " ask the driver for memory again.",
            _emptied,
            predict_release,
        ),
        Action(
            ActionName.HISTORY_ON,
            "Memory history on",
            "h",
            "memory history on: which line asks for each new block",
            "Have process {} record its memory history?",
            "Switch on",
            "Each allocation then takes about 2 us longer, and each live block keeps the Python stack that asked for"
            " it. No list of events is kept. It ends when the last viewer leaves.",
            _history_begun,
            recorders=frozenset({Recorder.NOBODY}),
            recorder_after=Recorder.PROBE,
        ),
        Action(
            ActionName.HISTORY_OFF,
            "Memory history off",
            "h",
            "memory history off",
            "Stop recording the memory history of process {}?",
            "Switch off",
            "New blocks then no longer record the line that asked for them; blocks that have one keep it.",
            _history_ended,
            recorders=frozenset({Recorder.PROBE}),
            recorder_after=Recorder.NOBODY,
        ),
        Action(
            ActionName.RECORD_STEP,
            "Step",
            "t",
            "record a step: every allocation, and who holds the peak",
            "Record a step of process {}?",
            "Record",
            "For some seconds each allocation takes a few microseconds longer, which makes a step 1.1 to 1.5 times as"
            " long; then the program stops once, for at most 100 ms.",
            _step_recorded,
            recorders=frozenset({Recorder.NOBODY, Recorder.PROBE}),
        ),
    )
}
"""By name, in the order of the menu."""

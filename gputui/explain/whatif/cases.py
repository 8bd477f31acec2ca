"""The cases of a what-if: what each changes, how much memory it would take, and how sure that figure is."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache

from gputui.explain.whatif.allocator.settings import with_settings
from gputui.explain.whatif.changes import changed as changed_by
from gputui.explain.whatif.changes import cheapest_first, check, label_of
from gputui.explain.whatif.replay.recorded import Recorded, replayable
from gputui.explain.whatif.replay.replay import Outcome, replay_in_slices
from gputui.explain.whatif.trace.operations import Kind, Operations
from gputui.model.attached.allocator import AllocatorSettings

BATCHES_AT_MOST = 1 << 20
"""Where the search for the largest batch ends."""


class Known(str, Enum):
    """How sure an outcome is."""

    EXACT = "exact"  # the recorded requests from the program's start on, or a replay that gives the recorded peak
    SCALED = "scaled"  # another batch: some requests are resized in proportion to it
    ESTIMATED = "estimated"  # part of the requests is assumed: see `_known`


@dataclass(frozen=True, slots=True)
class Case:
    """One line of a what-if. `settings` are written as in PYTORCH_ALLOC_CONF and added to the program's own.

    `batch` is the recorded batch and the one asked about, `device_memory_bytes` the memory of another device (None: the
    recorded one), `changes` names changes of the program in `changes.CHANGES`.
    """

    label: str
    settings: str = ""
    batch: tuple[int, int] | None = None
    device_memory_bytes: int | None = None
    has_empty_cache: bool = True
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A case with its outcome."""

    case: Case
    outcome: Outcome
    known: Known


DEFAULT_SETTINGS = (
    "expandable_segments:True",
    "max_split_size_mb:128",
    "max_split_size_mb:512",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:8",
)
"""The settings that people try, the most usual first."""

AS_RECORDED = Case("as recorded")
AS_WRITTEN = Case("as written")
"""The cases without a change: of a recorded trace, and of a program that did not run."""


def unchanged(recorded: Recorded) -> Case:
    """The case without a change, with which the others are compared."""
    return AS_WRITTEN if recorded.is_ahead else AS_RECORDED


def default_cases(recorded: Recorded) -> tuple[Case, ...]:
    """The cases to show where the user asked for none, the cheapest first, without settings that the program has."""
    own = recorded.settings
    changed = [Case(words, words) for words in DEFAULT_SETTINGS if not is_same(own, with_settings(own, words))]
    if own.is_expandable:
        changed.append(Case("expandable_segments:False", "expandable_segments:False"))
    if Kind.EMPTY_CACHE in recorded.operations.kinds:
        changed.append(Case("without its calls of empty_cache()", has_empty_cache=False))
    return (*changed, *changes_of(recorded))


def changes_of(recorded: Recorded) -> list[Case]:
    """Cases that change the program, the cheapest first; none where the trace does not say what requests are for."""
    if recorded.parts is None:
        return []
    return [Case(label_of(names), changes=names) for names in cheapest_first(recorded.operations, recorded.parts)]


def is_same(one: AllocatorSettings, other: AllocatorSettings) -> bool:
    """Whether the allocator does the same under two settings, however these are written."""
    return replace(one, values=(), roundup_divisions=_divisions(one)) == replace(
        other, values=(), roundup_divisions=_divisions(other)
    )


def _divisions(settings: AllocatorSettings) -> tuple[int, ...]:
    """Only divisions over 1 change anything."""
    return tuple(count if count > 1 else 0 for count in settings.roundup_divisions) or (0,) * 16


def answers(recorded: Recorded, cases: Sequence[Case]) -> Iterator[float | Answer]:
    """The answers to the cases in order, and between them the share of the work that is done. Raises UsageError."""
    for place, case in enumerate(cases):
        for step in _run(recorded, case):
            yield step if isinstance(step, Answer) else (place + step) / len(cases)


def answer(recorded: Recorded, case: Case) -> Answer:
    """The answer to one case. Raises UsageError where the trace contradicts its map."""
    return next(step for step in _run(recorded, case) if isinstance(step, Answer))


def _run(recorded: Recorded, case: Case) -> Iterator[float | Answer]:
    settings = with_settings(recorded.settings, case.settings)
    device = recorded.device
    if case.device_memory_bytes is not None:
        device = replace(device, available_bytes=case.device_memory_bytes, total_bytes=case.device_memory_bytes)
    sizes = recorded.scaled(*case.batch) if case.batch else None
    operations = _operations(recorded, case, sizes)
    sizes = None if case.changes else sizes
    is_unchanged = sizes is None and not case.changes
    start = recorded.start if is_unchanged and is_same(settings, recorded.settings) else None
    like_before = None if case.changes or not case.has_empty_cache else recorded.beginning
    steps = replay_in_slices(operations, settings, device, sizes, start or like_before)
    while True:
        with replayable():
            step = next(steps, None)
        if step is None:
            return
        yield Answer(case, step, _known(recorded, case, step)) if isinstance(step, Outcome) else step


def _operations(recorded: Recorded, case: Case, sizes: array[int] | None) -> Operations:
    """The operations of a case. `sizes`, those of another batch, are put in only where `changes` edits operations."""
    operations = recorded.operations if case.has_empty_cache else without_empty_cache(recorded.operations)
    if not case.changes:
        return operations
    check(recorded.operations, recorded.parts, case.changes)
    assert recorded.parts is not None
    scaled = operations if sizes is None else replace(operations, sizes_bytes=sizes)
    return changed_by(scaled, recorded.parts, case.changes)


def _known(recorded: Recorded, case: Case, outcome: Outcome) -> Known:
    if recorded.is_ahead or case.changes:
        return Known.ESTIMATED
    if case.batch is not None and case.batch[0] != case.batch[1]:
        return Known.SCALED
    is_recorded = case == replace(AS_RECORDED, label=case.label)
    if is_recorded:
        return Known.EXACT if outcome.peak_reserved_bytes == recorded.recorded_peak_bytes else Known.ESTIMATED
    return Known.EXACT if recorded.is_whole and not recorded.operations.doubtful_releases else Known.ESTIMATED


def without_empty_cache(operations: Operations) -> Operations:
    """The operations without the program's own calls of `empty_cache()`."""
    kept = [place for place, kind in enumerate(operations.kinds) if kind != Kind.EMPTY_CACHE]
    numbers, events = operations.numbers, operations.events
    return replace(
        operations,
        kinds=bytes(operations.kinds[place] for place in kept),
        numbers=type(numbers)("q", [numbers[place] for place in kept]),
        events=type(events)("q", [events[place] for place in kept]),
    )


@dataclass(frozen=True, slots=True)
class LargestBatch:
    """The largest batch that fits a device, and what it would reserve there.

    `retries` counts requests of this batch that are met only after PyTorch has emptied its cache, `without_retries` is
    the largest batch that needs no retry, 0 for none. `bytes_per_sample`: see `_bytes_per_sample`. `is_bound`: the
    trace ends with a request that failed, so a step with this batch may still request too much after that.
    """

    batch: int
    peak_reserved_bytes: int
    bytes_per_sample: int
    is_bound: bool = False
    retries: int = 0
    without_retries: int = 0


def largest_batch(
    recorded: Recorded, now: int, case: Case, report: Callable[[], None] = lambda: None
) -> LargestBatch | None:
    """By bisection over replays; calls `report` before each. None if not even a batch of 1 fits, or if all do."""

    @cache
    def outcome(batch: int) -> Outcome:
        report()
        return answer(recorded, replace(case, batch=(now, batch))).outcome

    def fits(batch: int) -> bool:
        return not outcome(batch).is_out_of_memory

    largest = _largest(fits, now)
    if not largest:
        return None
    at_largest = outcome(largest)
    is_bound = recorded.operations.failure_at_end >= 0
    easy = (
        largest if not at_largest.retries else _largest(lambda batch: fits(batch) and not outcome(batch).retries, now)
    )
    each = _bytes_per_sample(recorded, now, case)
    return LargestBatch(largest, at_largest.peak_reserved_bytes, each, is_bound, at_largest.retries, easy or 0)


def _largest(is_good: Callable[[int], bool], first: int) -> int | None:
    """The largest batch for which `is_good` holds, 0 for none; None where it holds up to `BATCHES_AT_MOST`."""
    good, bad = 0, first
    while bad <= BATCHES_AT_MOST and is_good(bad):
        good, bad = bad, bad * 2
    if bad > BATCHES_AT_MOST:
        return None
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if is_good(middle) else (good, middle)
    return good


def _bytes_per_sample(recorded: Recorded, now: int, case: Case) -> int:
    """The growth of the allocated peak for each sample, up to the batch asked about (or twice the recorded one)."""
    endless = replace(recorded, device=replace(recorded.device, available_bytes=None))
    then = case.batch[1] if case.batch and case.batch[1] != now else 2 * now
    less, more = (
        answer(endless, replace(case, device_memory_bytes=None, batch=(now, batch))).outcome.peak_allocated_bytes
        for batch in (now, then)
    )
    return (more - less) // (then - now)


def largest_of(
    recorded: Recorded, cases: Sequence[Case], report: Callable[[], None] = lambda: None
) -> LargestBatch | None:
    """The largest batch that fits, for the first case that names a batch; None without one, or on unlimited memory."""
    case = next((case for case in cases if case.batch), None)
    if case is None or case.batch is None:
        return None
    if case.device_memory_bytes is None and recorded.device.available_bytes is None:
        return None
    return largest_batch(recorded, case.batch[0], case, report)

"""A recorded step in sentences: the peak and its holders first."""

from __future__ import annotations

from gputui.explain.step.kinds import Kind
from gputui.explain.step.phases import Phase
from gputui.explain.step.step import Grouping, Step
from gputui.model.attached.trace import RecordedTraces, RecordingCost
from gputui.units import format_bytes

HOLDERS_NAMED = 3
ABOUT = 1.01
"""Peaks whose ratio is less count as equal."""
WHOLE_STEPS_COUNTED = 1.5
"""How many steps must have passed before the recording, and during it, so that their times can be compared."""


def headline(step: Step) -> str:
    """The peak: how much, where in the step, and what held it."""
    timeline, event = step.timeline, step.peak
    phase = step.phase_at(event)
    where = f" in {'the ' if phase is Phase.OPTIMIZER else ''}{phase.value}" if phase is not Phase.UNKNOWN else ""
    kinds = sorted(step.bytes_by_kind(event).items(), key=lambda pair: -pair[1])[: HOLDERS_NAMED + 1]
    held = ", ".join(f"{_words(kind)} {format_bytes(size_bytes)}" for kind, size_bytes in kinds)
    number = f"event {event - step.first + 1:,} of {step.end - step.first:,}"
    return f"peak {format_bytes(timeline.allocated[event])}{where} ({number}), held by {held}"


def _words(kind: Kind) -> str:
    return "other tensors" if kind is Kind.OTHER else kind.words


def largest_line(step: Step) -> str:
    """Which line holds most at the peak, of the blocks that the step has allocated itself."""
    groups = [group for group in step.holders(step.peak, Grouping.LINE) if group.first_birth >= step.first]
    if not groups:
        return "the step itself holds nothing at its peak"
    top = groups[0]
    blocks = f" in {top.count:,} blocks" if top.count > 1 else ""
    whole = "the step itself" if step.is_whole or step.is_unfinished else "the recording"
    return f"{top.name}: {format_bytes(top.bytes)}{blocks}, most of what {whole} allocated"


def extent(step: Step) -> str:
    """How long the step is, and how it was found."""
    events = f"{step.end - step.first:,} events"
    reserved = max(step.timeline.reserved[step.first : step.end], default=0)
    duration = f" in {step.duration_s * 1000:.0f} ms" if step.duration_s else ""
    count, upto = len(step.steps), f"up to {format_bytes(reserved)} reserved"
    if step.is_unfinished:
        after = f", after {count} whole step{'s' if count > 1 else ''}" if count else ""
        return f"the step that failed: {events}{duration}{after}, {upto}{_beyond(step)}"
    if not count:
        return f"no step found, because nothing repeats: all {events}{duration}, {upto}"
    if not step.is_whole:
        return f"the whole recording: {events}{duration}, with {count} whole step{'s' if count > 1 else ''}, {upto}"
    alike = f", the last of {count} whole steps recorded" if count > 1 else ""
    return f"a step of {events}{duration}{alike}, {upto}{_beyond(step)}"


def _beyond(step: Step) -> str:
    """A note that the recording has a higher peak outside the step, as where a program begins; "" if it has not."""
    most = max(step.timeline.allocated, default=0)
    if most <= ABOUT * step.timeline.allocated[step.peak]:
        return ""
    return f"; outside the step, the recording reaches {format_bytes(most)}"


def cost_words(step: Step, recorded: RecordedTraces) -> str:
    """How much the recording slowed the program, "" if gputui did not make the recording."""
    cost = recorded.cost
    if cost is None:
        return ""
    slower = _slowdown(cost, step.end - step.first if step.is_whole else 0)
    stop = f"the program stopped once for {cost.stop_ms:.0f} ms"
    if slower is None:
        return f"Recorded for {cost.during_s:.1f} s; {stop}."
    return f"Steps took {slower:.2f} times as long while recorded, for {cost.during_s:.1f} s; {stop}."


def _slowdown(cost: RecordingCost, events: int) -> float | None:
    """How many times as long steps took while recorded; None if too few (of `events` each) passed to compare."""
    if not events or min(cost.before_events, cost.during_events) < WHOLE_STEPS_COUNTED * events:
        return None
    if cost.before_s <= 0 or cost.during_s <= 0:
        return None
    return (cost.before_events / cost.before_s) / (cost.during_events / cost.during_s)

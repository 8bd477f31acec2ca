"""The state of the screen of a recorded step: which events are shown, the cursor, and the grouping of blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Union

from gputui.explain.step.layers import Column, columns_of
from gputui.explain.step.step import Grouping, Holders, Step
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.target import Look
from gputui.model.attached.trace import RecordedTraces, Trace

Take = Callable[[Union[Step, None]], None]
BuildStep = Callable[[Trace, Look, Take], object]
"""Starts `step_of(trace, look)` without waiting for it, and calls a function with the result."""

GROUPINGS = (Grouping.LINE, Grouping.MODULE, Grouping.SIZE, Grouping.KIND)


def recorded_in(moment: TargetMoment) -> RecordedTraces | None:
    """The traces of a moment: recorded by gputui, or of the file that is shown; None without any."""
    if moment.recorded is not None:
        return moment.recorded
    return RecordedTraces(moment.traces, moment.look) if moment.traces and moment.look else None


class StepView:
    """The recorded step of one process. `build` computes the step in another thread, as that can take seconds."""

    def __init__(self) -> None:
        self._key: tuple[object, int] = (None, -1)
        self._step: Step | None = None
        self._whole: Step | None = None
        self._columns: tuple[object, int, tuple[Column, ...]] = (None, 0, ())
        self._holders: tuple[object, list[Holders]] = (None, [])
        self.recorded: RecordedTraces | None = None
        self.is_building = False
        self.is_whole_trace = False
        self.cursor = 0
        self.grouping = Grouping.LINE
        self.top = 0
        """The first group that is shown."""

    @property
    def step(self) -> Step | None:
        """What is shown: the step, or the whole trace."""
        return self._whole if self.is_whole_trace else self._step

    def follow(self, recorded: RecordedTraces | None, device: int, build: BuildStep) -> None:
        """Show the step of a device in these traces, and build the step unless that was done."""
        traces = recorded.traces if recorded else None
        if (traces, device) == self._key or recorded is None or traces is None:
            return
        self._key, self.recorded, self._step, self._whole = (traces, device), recorded, None, None
        trace = next((one for one in recorded.traces if one.device == device), None)
        self.is_building = trace is not None
        if trace is None:
            return
        build(trace, recorded.look, partial(self._take, self._key))

    def _take(self, key: tuple[object, int], step: Step | None) -> None:
        if key != self._key:
            return  # another recording has come meanwhile
        self.is_building, self._step = False, step
        if step is not None:
            end = len(step.timeline)
            self._whole = replace(step, first=0, end=end, peak=step.timeline.peak(0, end), is_unfinished=False)
            self.is_whole_trace = False
            self.go(step.peak)

    def go(self, event: int) -> None:
        """Put the cursor on an event, or on the nearest that is shown."""
        if self.step is not None:
            self.cursor = max(self.step.first, min(event, self.step.end - 1))
            self.top = 0

    def toggle_whole_trace(self) -> None:
        """Show the whole trace instead of the step, or the step again."""
        if self._step is not None and (self._step.is_whole or self._step.is_unfinished):
            self.is_whole_trace = not self.is_whole_trace
            self.go(self.cursor)

    def next_grouping(self) -> None:
        """Group blocks by the next of `GROUPINGS`."""
        self.grouping = GROUPINGS[(GROUPINGS.index(self.grouping) + 1) % len(GROUPINGS)]
        self.top = 0

    def columns(self, width: int) -> tuple[Column, ...]:
        """The graph's columns for a width."""
        if self._columns[:2] != (self.step, width) and self.step is not None:
            self._columns = (self.step, width, columns_of(self.step, width))
        return self._columns[2]

    def holders(self) -> list[Holders]:
        """The groups of blocks that are alive at the cursor."""
        key = (id(self.step), self.cursor, self.grouping)
        if self._holders[0] != key and self.step is not None:
            self._holders = (key, self.step.holders(self.cursor, self.grouping))
        return self._holders[1]

"""From a recording to timelines: the same moments that the screens saw, up to any time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from gputui.explain.probe_state import ProbeState, after, moment_among
from gputui.model.moment import Surroundings, TargetMoment
from gputui.model.reading import Problem
from gputui.model.target import ActionResult, Greeting, Mark, Statistics
from gputui.model.timeline import MARKED_MOMENTS, POINTS, WHOLE_MOMENTS, Timeline
from gputui.sources.recording.reader import Recording
from gputui.sources.recording.records import Looked, Record

NOT_LOOKED = Looked(0, 0.0, ())

Rename = Callable[[Greeting], Greeting]
"""How a process introduces itself on the screens."""


@dataclass(frozen=True, slots=True)
class _Sketch:
    """A moment of which the look is not read yet: the time of `looked` is 0 where there was none."""

    state: ProbeState
    looked: Looked
    around: Surroundings


class Story:
    """What has been told up to `position` (epoch seconds); it goes forward only."""

    def __init__(self, recording: Recording, rename: Rename = lambda greeting: greeting) -> None:
        self._rename = rename
        self._recording = recording
        self._records = recording.records()
        self._next = next(self._records, None)
        self._heard = {pid: ProbeState(rename(greeting)) for pid, greeting in recording.greetings.items()}
        self._looked: dict[int, Looked] = {}
        self._timelines = {pid: Timeline() for pid in recording.greetings}
        self.position = recording.begins

    @property
    def next_time(self) -> float | None:
        """When the next record is due, None at the end."""
        return self._next.time if self._next else None

    def tell_until(self, time: float, *, is_rough: bool = False) -> dict[int, Timeline]:
        """Go on to `time`; the timelines of the processes of which there was something new, for others to keep.

        Only the moments that a timeline keeps whole are made with their looks, which are what takes time to read; where
        it is rough, the newest alone.
        """
        self.position = time
        sketches: dict[int, deque[_Sketch]] = {}
        while self._next is not None and self._next.time <= time:
            sketch = self._take(self._next)
            if sketch is not None:
                sketches.setdefault(self._next.pid, deque(maxlen=POINTS)).append(sketch)
            self._next = next(self._records, None)
        for pid, told in sketches.items():
            self._add(pid, told, 1 if is_rough else WHOLE_MOMENTS)
        return {pid: self._timelines[pid].copy() for pid in sketches}

    def moments(self) -> Iterator[TargetMoment]:
        """The rest of the recording, moment by moment, each with its look; instead of `tell_until`."""
        while self._next is not None:
            sketch = self._take(self._next)
            if sketch is not None:
                yield self._moment(self._next.pid, sketch, is_whole=True)
            self._next = next(self._records, None)

    def _take(self, record: Record) -> _Sketch | None:
        state, said = self._heard.get(record.pid), record.said
        if state is None:
            return None
        if isinstance(said, Surroundings):
            return _Sketch(state, self._looked.get(record.pid, NOT_LOOKED), said)
        if isinstance(said, Looked):
            self._looked[record.pid] = said
            self._heard[record.pid] = replace(state, statistics=said.statistics or state.statistics)
        elif isinstance(said, Greeting):
            self._heard[record.pid] = after(state, self._rename(said))
        elif isinstance(said, (Statistics, Mark, ActionResult)):
            self._heard[record.pid] = after(state, said)
        return None

    def _add(self, pid: int, told: deque[_Sketch], whole: int) -> None:
        timeline = self._timelines[pid]
        looked = timeline.latest.look_time if timeline.latest else 0.0
        for number, sketch in enumerate(told):
            is_newest = number >= len(told) - whole
            is_marked = whole > 1 and any(
                looked < mark.time <= sketch.looked.time for mark in sketch.state.marks[-MARKED_MOMENTS:]
            )
            timeline.add(self._moment(pid, sketch, is_whole=is_newest or is_marked))
            looked = sketch.looked.time

    def _moment(self, pid: int, sketch: _Sketch, *, is_whole: bool) -> TargetMoment:
        state, looked = sketch.state, sketch.looked
        seen = self._recording.look(pid, looked.number, looked.named) if is_whole and looked.number else None
        if seen is not None:
            state = replace(state, look=seen[0], layouts=seen[1])
        moment = moment_among(state, sketch.around)
        return replace(moment, problems=(*moment.problems, *map(Problem, self._recording.notices)))

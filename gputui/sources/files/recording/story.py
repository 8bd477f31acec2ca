"""From a recording to timelines: the moments that the screens saw, up to any time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from gputui.explain.probe_state import ProbeState, after, moment_among
from gputui.model.moment import Surroundings, TargetMoment
from gputui.model.reading import Problem
from gputui.model.target import ActionResult, Greeting, Mark, Statistics
from gputui.model.timeline import MARKED_MOMENTS, POINTS, WHOLE_MOMENTS, Timeline
from gputui.model.trace import RecordedTraces
from gputui.sources.files.recording.reader import Recording
from gputui.sources.files.recording.records import LookTaken, Record

NO_LOOK = LookTaken(0, 0.0, ())

Rename = Callable[[Greeting], Greeting]
"""Changes how a process appears on the screens."""


@dataclass(frozen=True, slots=True)
class _Sketch:
    """A moment whose look is not read yet; the time of `look` is 0 if there was none."""

    state: ProbeState
    look: LookTaken
    surroundings: Surroundings


class Story:
    """The timelines up to `position` (epoch seconds); it goes forward only."""

    def __init__(self, recording: Recording, rename: Rename = lambda greeting: greeting) -> None:
        self._rename = rename
        self._recording = recording
        self._records = recording.records()
        self._next = next(self._records, None)
        self._states = {pid: ProbeState(rename(greeting)) for pid, greeting in recording.greetings.items()}
        self._looks: dict[int, LookTaken] = {}
        self._timelines = {pid: Timeline() for pid in recording.greetings}
        self.position = recording.begins

    @property
    def next_time(self) -> float | None:
        """When the next record is due, None at the end."""
        return self._next.time if self._next else None

    def advance(self, time: float, *, is_rough: bool = False) -> dict[int, Timeline]:
        """Go forward to `time`; returns copies of the timelines that have something new.

        Only the moments that a timeline keeps whole get their looks, since reading those takes time; with `is_rough`,
        only the newest moment does.
        """
        self.position = time
        notices = self._recording.notices
        sketches: dict[int, deque[_Sketch]] = {}
        while self._next is not None and self._next.time <= time:
            sketch = self._take(self._next)
            if sketch is not None:
                sketches.setdefault(self._next.pid, deque(maxlen=POINTS)).append(sketch)
            self._next = next(self._records, None)
        for pid, new in sketches.items():
            self._add(pid, new, 1 if is_rough else WHOLE_MOMENTS)
            self._timelines[pid].is_rough |= is_rough
        changed = set(sketches)
        if self._recording.notices != notices:
            changed |= self._repeat_last(time)
        return {pid: self._timelines[pid].copy() for pid in changed}

    def moments(self) -> Iterator[TargetMoment]:
        """The rest of the recording, moment by moment, each with its look; instead of `advance`."""
        while self._next is not None:
            sketch = self._take(self._next)
            if sketch is not None:
                yield self._moment(self._next.pid, sketch, is_whole=True)
            self._next = next(self._records, None)

    def _take(self, record: Record) -> _Sketch | None:
        state, content = self._states.get(record.pid), record.content
        if state is None:
            return None
        if isinstance(content, Surroundings):
            return _Sketch(state, self._looks.get(record.pid, NO_LOOK), content)
        if isinstance(content, LookTaken):
            self._looks[record.pid] = content
            self._states[record.pid] = replace(state, statistics=content.statistics or state.statistics)
        elif isinstance(content, Greeting):
            self._states[record.pid] = after(state, self._rename(content))
        elif isinstance(content, RecordedTraces):
            self._states[record.pid] = replace(state, recorded=content)
        elif isinstance(content, (Statistics, Mark, ActionResult)):
            self._states[record.pid] = after(state, content)
        return None

    def _add(self, pid: int, sketches: deque[_Sketch], whole: int) -> None:
        timeline = self._timelines[pid]
        look_time = timeline.latest.look_time if timeline.latest else 0.0
        for number, sketch in enumerate(sketches):
            is_newest = number >= len(sketches) - whole
            is_marked = whole > 1 and any(
                look_time < mark.time <= sketch.look.time for mark in sketch.state.marks[-MARKED_MOMENTS:]
            )
            timeline.add(self._moment(pid, sketch, is_whole=is_newest or is_marked))
            look_time = sketch.look.time

    def _repeat_last(self, time: float) -> set[int]:
        """Show a new notice with the last moment of each process, as no other may follow; returns their PIDs."""
        latest = {pid: timeline.latest for pid, timeline in self._timelines.items()}
        for pid, moment in latest.items():
            if moment is not None:
                problems = (*moment.problems, *map(Problem, self._recording.notices))
                self._timelines[pid].add(replace(moment, time=time, problems=tuple(dict.fromkeys(problems))))
        return {pid for pid, moment in latest.items() if moment is not None}

    def _moment(self, pid: int, sketch: _Sketch, *, is_whole: bool) -> TargetMoment:
        state, look = sketch.state, sketch.look
        seen = self._recording.look(pid, look.number, look.named) if is_whole and look.number else None
        if seen is not None:
            state = replace(state, look=seen[0], layouts=seen[1])
        moment = moment_among(state, sketch.surroundings)
        return replace(moment, problems=(*moment.problems, *map(Problem, self._recording.notices)))

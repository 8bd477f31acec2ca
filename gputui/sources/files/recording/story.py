"""Makes timelines from a recording: the moments that the screens saw, up to any time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from gputui.explain.memory.collection import still_there
from gputui.explain.moment.probe_state import Height, ProbeState, after, height_of, moment_among
from gputui.model.attached.moment import Surroundings, TargetMoment
from gputui.model.attached.target import ActionResult, Garbage, Greeting, Mark, Statistics
from gputui.model.attached.timeline import MARKED_MOMENTS, WHOLE_MOMENTS, Timeline
from gputui.model.attached.trace import RecordedTraces
from gputui.model.reading import Problem
from gputui.sources.files.recording.bookmarks import Bookmark, Bookmarks
from gputui.sources.files.recording.reader import Recording
from gputui.sources.files.recording.records import LookTaken, Record

NO_LOOK = LookTaken(0, 0.0, ())

Rename = Callable[[Greeting], Greeting]
"""Changes how a process appears on the screens."""


@dataclass(frozen=True, slots=True)
class _Sketch:
    """A moment whose looks are not read yet; `look` and `top` are `NO_LOOK` if there was none."""

    state: ProbeState
    look: LookTaken
    top: LookTaken
    surroundings: Surroundings


@dataclass(slots=True)
class _Process:
    """One process at some place of a recording.

    `look` is the last look taken, `top` the look near the top of a step, `shown_look_time` the time of the newest
    moment's look, whether that was read or not. The last `new` of the `newest` sketches are in the timeline without
    their looks.
    """

    state: ProbeState
    look: LookTaken = NO_LOOK
    top: LookTaken = NO_LOOK
    highest: Height | None = None
    shown_look_time: float = 0.0
    timeline: Timeline = field(default_factory=Timeline)
    newest: deque[_Sketch] = field(default_factory=lambda: deque(maxlen=WHOLE_MOMENTS))
    new: int = 0

    def copy(self) -> _Process:
        """An independent copy that has yet to read the looks of its newest moments."""
        return replace(self, timeline=self.timeline.bare(), newest=self.newest.copy(), new=len(self.newest))


StoryMarks = Bookmarks[_Process]
"""The bookmarks at which the stories of one recording can begin."""


class Story:
    """Makes the timelines up to `position` (epoch seconds), which only moves forward.

    The story begins at the last of `bookmarks` before `start`, and adds others on its way.
    """

    def __init__(
        self,
        recording: Recording,
        rename: Rename = lambda greeting: greeting,
        bookmarks: StoryMarks | None = None,
        start: float = 0.0,
    ) -> None:
        self._rename = rename
        self._recording = recording
        self._bookmarks: StoryMarks = Bookmarks() if bookmarks is None else bookmarks
        self._processes = {pid: _Process(ProbeState(rename(greeting))) for pid, greeting in recording.greetings.items()}
        begin = self._bookmarks.before(start) or Bookmark(recording.begins, 0, self._processes)
        self._processes = {pid: process.copy() for pid, process in begin.kept.items()}
        self._newest_time = begin.time
        self.position = recording.begins
        self._records = recording.numbered_records(begin.chunk)
        self._chunk, self._next = self._read()

    def _read(self) -> tuple[int, Record | None]:
        """The next record and the number of its chunk; (-1, None) at the end."""
        return next(self._records, (-1, None))

    @property
    def next_time(self) -> float | None:
        """When the next record is due, None at the end."""
        return self._next.time if self._next else None

    def advance(self, time: float, *, is_rough: bool = False) -> dict[int, Timeline]:
        """Go forward to `time`; returns copies of the timelines that have something new, by PID.

        Only the moments that a timeline keeps whole get their looks, since reading looks takes time; with `is_rough`,
        only the newest moment gets its look.
        """
        self.position = time
        notices = self._recording.notices
        while self._next is not None and self._next.time <= time:
            pid, sketch = self._next.pid, self._take(self._next)
            if sketch is not None:
                self._add(pid, sketch, has_marked=not is_rough)
            self._go_on(self._next, may_stop=not is_rough)
        changed = {pid for pid, process in self._processes.items() if process.new}
        for pid in changed:
            self._complete(pid, is_rough=is_rough)
        if self._recording.notices != notices:
            changed |= self._repeat_last(time)
        return {pid: self._processes[pid].timeline.copy() for pid in changed}

    def _go_on(self, record: Record, *, may_stop: bool) -> None:
        """Go to the record after this one; between two chunks, add a bookmark if one is due and it `may_stop`."""
        before = self._chunk
        self._newest_time = max(self._newest_time, record.time)
        self._chunk, self._next = self._read()
        if may_stop and self._chunk not in (before, -1) and self._bookmarks.is_due(self._newest_time):
            kept = {pid: process.copy() for pid, process in self._processes.items()}
            self._bookmarks.add(Bookmark(self._newest_time, self._chunk, kept))

    def moments(self) -> Iterator[TargetMoment]:
        """The moments of the rest of the recording, each with its look; use it instead of `advance`."""
        while self._next is not None:
            sketch = self._take(self._next)
            if sketch is not None:
                yield self._moment(self._next.pid, sketch, is_whole=True)
            self._chunk, self._next = self._read()

    def _take(self, record: Record) -> _Sketch | None:
        process, content = self._processes.get(record.pid), record.content
        if process is None:
            return None
        if isinstance(content, Surroundings):
            return _Sketch(process.state, process.look, process.top, content)
        if isinstance(content, LookTaken):
            process.look = content
            highest = height_of(content.time, content.statistics).in_place_of(process.highest)
            if highest is not None:
                process.highest, process.top = highest, content
            process.state = replace(process.state, statistics=content.statistics or process.state.statistics)
        elif isinstance(content, Greeting):
            process.state = after(process.state, self._rename(content))
        elif isinstance(content, RecordedTraces):
            process.state = replace(process.state, recorded=content)
        elif isinstance(content, (Statistics, Mark, ActionResult, Garbage)):
            process.state = after(process.state, content)
        return None

    def _add(self, pid: int, sketch: _Sketch, *, has_marked: bool) -> None:
        """Add a moment without its look; with `has_marked`, the first moment with a look after a mark gets the look."""
        process = self._processes[pid]
        is_marked = has_marked and any(
            process.shown_look_time < mark.time <= sketch.look.time for mark in sketch.state.marks[-MARKED_MOMENTS:]
        )
        process.shown_look_time = sketch.look.time
        if process.timeline.add(self._moment(pid, sketch, is_whole=is_marked)):
            process.newest.append(sketch)
            process.new += 1

    def _complete(self, pid: int, *, is_rough: bool) -> None:
        """Give the newest moments their looks."""
        process = self._processes[pid]
        sketches = list(process.newest)[-1 if is_rough else -process.new :]
        process.timeline.complete([self._moment(pid, sketch, is_whole=True) for sketch in sketches])
        process.timeline.is_rough |= is_rough
        process.new = 0

    def _repeat_last(self, time: float) -> set[int]:
        """Show a new notice in a copy of each process's last moment, as no other may follow; returns their PIDs."""
        repeated = set()
        for pid, process in self._processes.items():
            moment = process.timeline.latest
            if moment is not None:
                problems = (*moment.problems, *map(Problem, self._recording.notices))
                process.timeline.add(replace(moment, time=time, problems=tuple(dict.fromkeys(problems))))
                repeated.add(pid)
        return repeated

    def _moment(self, pid: int, sketch: _Sketch, *, is_whole: bool) -> TargetMoment:
        state, look = sketch.state, sketch.look
        seen = self._recording.look(pid, look.number, look.named) if is_whole and look.number else None
        top = self._recording.look(pid, sketch.top.number, sketch.top.named) if seen is not None else None
        if seen is not None:
            garbage = still_there(state.garbage, {}, seen[0].map, {})
            state = replace(state, look=seen[0], layouts=seen[1], garbage=garbage)
        if top is not None:
            state = replace(state, top=top[0], top_layouts=top[1])
        moment = moment_among(state, sketch.surroundings)
        return replace(moment, problems=(*moment.problems, *map(Problem, self._recording.notices)))

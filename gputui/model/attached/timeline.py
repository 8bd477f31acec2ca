"""An attached process over time: the counters of all moments, and the newest moments whole. The place in a replay."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gputui.model.attached.counters import Counted, Counters, Noted
from gputui.model.attached.levels import Levels
from gputui.model.attached.moment import CounterPoint, TargetMoment
from gputui.model.attached.target import Mark

WHOLE_MOMENTS = 120
"""How many moments are kept with their layouts at most; moments between two looks share a layout."""

BLOCKS_AT_MOST = 200_000
"""Of all kept looks together; a block with its tensor takes three quarters of a kilobyte."""
LOOKS_AT_LEAST = 24
"""How many looks are kept even with more blocks: no rule compares more looks."""
BLOCKS_OF_ALL = 1_000_000
"""`BLOCKS_AT_MOST` for all attached processes together, where there are more than five."""
LOOKS_AMONG_MANY = 4
"""`LOOKS_AT_LEAST` for each process, where there are more than five."""

MARKED_MOMENTS = 40
"""The moments of this many newest marks are kept whole as long as the process is attached."""


class Timeline:
    """The moments of a process so far; times are epoch seconds, ascending."""

    def __init__(self, *moments: TargetMoment) -> None:
        self._points: Levels[CounterPoint] = Levels()
        self._noted: dict[int, Noted] = {}
        self._moments: deque[TargetMoment] = deque()
        self._looks: deque[TargetMoment] = deque()
        """The first moment with each look that a kept moment has."""
        self._blocks = 0
        """How many live blocks the looks in `_looks` have."""
        self._marked: dict[Mark, TargetMoment] = {}
        self._unmarked_until = 0.0
        """The time of the newest mark whose moment was dropped for lack of room."""
        self._among = 1
        self.is_rough = False
        """Whether moments before the newest one lack their looks, right after a jump in a replay."""
        for moment in moments:
            self.add(moment)

    def copy(self) -> Timeline:
        """An independent copy."""
        copied = Timeline()
        copied._points = self._points.copy()
        copied._noted = {device: noted.copy() for device, noted in self._noted.items()}
        copied._moments, copied._looks = self._moments.copy(), self._looks.copy()
        copied._blocks, copied._marked, copied.is_rough = self._blocks, self._marked.copy(), self.is_rough
        copied._unmarked_until, copied._among = self._unmarked_until, self._among
        return copied

    def bare(self) -> Timeline:
        """A copy that keeps no whole moments but those of marks; `complete` adds the others."""
        copied = self.copy()
        copied._moments, copied._looks, copied._blocks = deque(), deque(), 0
        return copied

    def complete(self, moments: Sequence[TargetMoment]) -> None:
        """Replace the newest moments, which were added without their looks, by moments that have them."""
        while self._moments and self._moments[-1].time >= moments[0].time:
            self._moments.pop()
        while self._looks and self._looks[-1].time >= moments[0].time:
            self._blocks -= _blocks_in(self._looks.pop())
        for moment in moments:
            self._keep_whole(moment)
            self._keep_marked(moment)

    def add(self, moment: TargetMoment) -> bool:
        """Add a moment; returns False for one that is not newer than the last, which is dropped."""
        latest = self._points.latest
        if latest is not None and moment.time <= latest.time:
            return False
        statistics = tuple(device.statistics for device in moment.devices)
        swings = tuple(device.swing for device in moment.devices if device.swing)
        self._points.add(CounterPoint(moment.time, statistics, swings))
        for device in moment.devices:
            counted = Counted(moment.time, device.statistics)
            if device.index not in self._noted:
                self._noted[device.index] = Noted(counted)
            self._noted[device.index].add(counted)
        self._keep_whole(moment)
        self._keep_marked(moment)
        return True

    def share(self, among: int) -> None:
        """From now on, keep no more looks than this process's part of the room for `among` attached processes."""
        self._among = among

    def counters(self, device: int, until: float | None = None) -> Counters:
        """The counters of a device (PyTorch's index) until a time, or the newest moment."""
        newest = self._moments[-1].time if self._moments else 0.0
        return Counters(device, newest if until is None else until, self._points, self._noted.get(device))

    @property
    def moments(self) -> tuple[TargetMoment, ...]:
        """The moments that are kept whole, oldest first."""
        return tuple(self._moments)

    def looks(self, before: float) -> list[TargetMoment]:
        """The first moment with each kept look, oldest first, as far as these moments are before a time."""
        return [moment for moment in self._looks if moment.time < before]

    @property
    def marked(self) -> tuple[tuple[Mark, TargetMoment], ...]:
        """The marks, each with the moment of the first look after it; until that comes, of the last look before it."""
        return tuple(self._marked.items())

    @property
    def latest(self) -> TargetMoment | None:
        """The newest moment."""
        return self._moments[-1] if self._moments else None

    def at(self, time: float) -> TargetMoment | None:
        """The last moment not after `time` (or the first one); without layouts if only its counters were kept."""
        if not self._moments:
            return None
        index = bisect_right(self._moments, time, key=lambda moment: moment.time)
        if index:
            return self._moments[index - 1]
        point = self._points.at(time) or self._points.first
        return _without_layouts(self._moments[0], point) if point else None

    def step(self, time: float, steps: int) -> float:
        """The time of the moment `steps` moments after `time` (negative: before it), among those that are kept."""
        for _ in range(abs(steps)):
            moved = self._points.next(time) if steps > 0 else self._points.before(time)
            time = moved.time if moved else time
        return time

    def _keep_whole(self, moment: TargetMoment) -> None:
        self._moments.append(moment)
        if moment.look_time and (not self._looks or self._looks[-1].look_time != moment.look_time):
            self._looks.append(moment)
            self._blocks += _blocks_in(moment)
        self._drop_old_looks()
        while self._has_too_much:
            self._moments.popleft()
            self._drop_old_looks()

    @property
    def _room(self) -> tuple[int, int]:
        """How many blocks are kept at most, and how many looks are kept even with more blocks."""
        room = BLOCKS_OF_ALL // self._among
        return (BLOCKS_AT_MOST, LOOKS_AT_LEAST) if room >= BLOCKS_AT_MOST else (room, LOOKS_AMONG_MANY)

    @property
    def _has_too_much(self) -> bool:
        blocks_at_most, looks_at_least = self._room
        has_many_blocks = self._blocks > blocks_at_most and len(self._looks) > looks_at_least
        return has_many_blocks or len(self._moments) > WHOLE_MOMENTS

    def _drop_old_looks(self) -> None:
        """Drop the looks that no whole moment has any more."""
        while len(self._looks) > 1 and self._looks[1].time <= self._moments[0].time:
            self._blocks -= _blocks_in(self._looks.popleft())

    def _keep_marked(self, moment: TargetMoment) -> None:
        for mark in moment.marks[-MARKED_MOMENTS:]:
            kept = self._marked.get(mark)
            if (kept is None and mark.time > self._unmarked_until) or (kept and kept.look_time < mark.time):
                self._marked[mark] = moment
        blocks_at_most, looks_at_least = self._room
        blocks = 0
        for number, old in enumerate(reversed(tuple(self._marked)), 1):
            blocks += _blocks_in(self._marked[old])
            if number > MARKED_MOMENTS or (blocks > blocks_at_most and number > looks_at_least):
                self._unmarked_until = max(self._unmarked_until, old.time)
                del self._marked[old]


def _blocks_in(moment: TargetMoment) -> int:
    return sum(len(device.layout.owners) for device in moment.devices if device.layout)


def _without_layouts(like: TargetMoment, point: CounterPoint) -> TargetMoment:
    counters = {counted.device: counted for counted in point.statistics}
    devices = tuple(
        replace(device, statistics=counters[device.index], layout=None, bridge=None, room=None)
        for device in like.devices
        if device.index in counters
    )
    return replace(
        like, time=point.time, devices=devices, look_time=0.0, look_cost=None, problems=(), ended=None, look=None
    )


SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


@dataclass(frozen=True, slots=True)
class Playback:
    """The place in a recording, its length, and how many recorded seconds pass in a second."""

    position_s: float
    length_s: float
    speed: float = 1.0
    is_playing: bool = True

    @property
    def shown(self) -> tuple[int, int, float, bool]:
        """The values as screens show them; equal if the screens need no change."""
        return int(self.position_s), int(self.length_s), self.speed, self.is_playing

    @property
    def is_at_end(self) -> bool:
        """Whether the end is reached."""
        return self.position_s >= self.length_s
